/**
 * How a worker connects. After an error that passes by itself, it announces the error and tries again. It throws any
 * other error.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis5";
import { createClient, createCluster } from "redis";
import { createCluster as createCluster5 } from "redis5";
import { Queue, type RedisClient } from "zeitset";
import { withEach } from "./support/clients.js";
import { Server, type Test } from "./support/server.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

const ignore = (): void => undefined;

withEach("while the server is away at the start, each attempt is told of", async (place) => {
  await place.server.kill();
  const { disconnected, events } = work(place, "jobs", () => undefined);
  await until("two attempts have failed", () => disconnected.length >= 2);
  await place.server.run();
  await until("a push arrives", () => new Queue(place.redis, "jobs").push(1, { id: "a" }).then(() => true, () => false));
  await until("it works", () => events.includes("completed a"));
});

withEach("too many clients are waited for", async (place) => {
  const { maxclients } = { maxclients: String(((await place.call("CONFIG", "GET", "maxclients")) as string[])[1]) };
  await place.call("CONFIG", "SET", "maxclients", "1");
  const { disconnected, events } = work(place, "jobs", () => undefined);
  await until("two attempts have failed", () => disconnected.length >= 2);
  await place.call("CONFIG", "SET", "maxclients", maxclients);
  await new Queue(place.redis, "jobs").push(1, { id: "a" });
  await until("it works", () => events.includes("completed a"));
});

type Start = (t: Test, port: number, password: string) => RedisClient;

const started = <C extends { on(event: "error", listener: () => void): unknown }>(t: Test, client: C, end: (client: C) => unknown): C => {
  client.on("error", ignore);
  t.after(async () => void (await end(client)));
  return client;
};

const SINGLES: Record<string, Start> = {
  "node-redis": (t, port, password) => {
    const client = createClient({ url: `redis://:${password}@127.0.0.1:${port}`, socket: { reconnectStrategy: false } });
    client.connect().catch(ignore);
    return started(t, client, (client) => client.isOpen && client.destroy());
  },
  ioredis: (t, port, password) => started(t, new Redis({ port, password, lazyConnect: true }), (client) => client.disconnect()),
  "ioredis 5": (t, port, password) => started(t, new Redis5({ port, password, lazyConnect: true }), (client) => client.disconnect()),
};

const CLUSTERS: Record<string, Start> = {
  "node-redis": (t, port, password) => {
    const client = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], defaults: { password } });
    client.connect().catch(ignore);
    return started(t, client, (client) => client.isOpen && client.destroy());
  },
  "node-redis 5": (t, port, password) => {
    const client = createCluster5({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], defaults: { password } });
    client.connect().catch(ignore);
    return started(t, client, (client) => client.isOpen && client.destroy());
  },
  ioredis: (t, port, password) =>
    started(t, new Cluster([{ host: "127.0.0.1", port }], { redisOptions: { password }, lazyConnect: true }), (client) => client.disconnect()),
  "ioredis 5": (t, port, password) =>
    started(t, new Cluster5([{ host: "127.0.0.1", port }], { redisOptions: { password }, lazyConnect: true }), (client) => client.disconnect()),
};

for (const [library, start] of Object.entries(SINGLES)) {
  test(`a wrong password is thrown (${library})`, { timeout: 60_000 }, async (t) => {
    const server = await Server.start(t, { password: "right" });
    await assert.rejects(work({ redis: start(t, server.port, "wrong"), test: t }, "jobs", ignore).run, /WRONGPASS|NOAUTH/);
  });
}

async function cluster(t: Test): Promise<Server> {
  const words = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  const server = await Server.start(t, { arguments: words, password: "right" });
  await server.ask("CLUSTER ADDSLOTSRANGE 0 16383");
  await until("the cluster is up", async () => (await server.ask("CLUSTER INFO")).includes("cluster_state:ok"));
  return server;
}

for (const [library, start] of Object.entries(CLUSTERS)) {
  test(`a cluster with a password is connected to, and a wrong one is thrown (${library})`, { timeout: 60_000 }, async (t) => {
    const server = await cluster(t);
    const { events } = work({ redis: start(t, server.port, "right"), test: t }, "jobs", ignore);
    await server.ask("ZQ.PUSH jobs 1 ID a");
    await until("it works", () => events.includes("completed a"));
    await assert.rejects(work({ redis: start(t, server.port, "wrong"), test: t }, "jobs", ignore).run, /WRONGPASS|NOAUTH/);
  });
}
