/** Sentinel and cluster, and the versions of the clients. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis5";
import { createClient, createClientPool, createSentinel } from "redis";
import { createClient as createClient5 } from "redis5";
import { checkAll, Cron, ExpiringSet, Limiter, NestStorage, type PushOptions, Queue, type RedisClient } from "zeitset";
import { Cluster, CLUSTER_CLIENTS } from "./support/cluster.js";
import { Server, type Test } from "./support/server.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

const ignore = (): void => undefined;

interface Deployment {
  readonly master: Server;
  readonly replica: Server;
  readonly sentinel: Server;
}

async function deployment(t: Test): Promise<Deployment> {
  const master = await Server.start(t);
  const replica = await Server.start(t, { arguments: ["--replicaof", "127.0.0.1", `${master.port}`] });
  await until("it replicates", async () => (await replica.ask("INFO replication")).includes("master_link_status:up"));
  const sentinel = await Server.sentinel(t, [
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    "sentinel down-after-milliseconds main 500",
    "sentinel failover-timeout main 5000",
  ]);
  await until("Sentinel knows the replica", async () => (await sentinel.ask("SENTINEL replicas main")).includes(`${replica.port}`));
  return { master, replica, sentinel };
}

const SENTINELS: Record<string, (t: Test, port: number) => Promise<RedisClient>> = {
  "node-redis": async (t, port) => {
    const client = createSentinel({ name: "main", sentinelRootNodes: [{ host: "127.0.0.1", port }], scanInterval: 500 });
    client.on("error", ignore);
    await client.connect();
    t.after(async () => void (await client.destroy().catch(ignore)));
    return client;
  },
  ioredis: async (t, port) => {
    const client = new Redis({ sentinels: [{ host: "127.0.0.1", port }], name: "main" });
    client.on("error", ignore);
    t.after(() => client.disconnect());
    return client;
  },
};

for (const [library, connect] of Object.entries(SENTINELS)) {
  test(`a failover by Sentinel loses no job (${library})`, { timeout: 180_000 }, async (t) => {
    const { master, replica, sentinel } = await deployment(t);
    const redis = await connect(t, sentinel.port);
    const queue = new Queue<number>(redis, "jobs");
    const { events } = work<number>({ redis, test: t }, "jobs", () => undefined, { lease: "2s" });
    // A client that looks for the master may delay a push for a long time. A repeated push has the id of the first
    // push.
    const push = (payload: number, options: PushOptions): Promise<void> =>
      until("a push arrives", () => {
        const pushed = queue.push(payload, options).then(() => true, () => false);
        return Promise.race([pushed, sleep(3000, false)]);
      });
    await push(0, { id: "before" });
    await until("it is done", () => events.includes("completed before"));
    await push(1, { id: "held", delay: "3s" });
    await until("the replica has it", async () => (await replica.ask("ZQ.GET jobs held")).includes("delayed"));
    await master.kill();
    await until("the replica was promoted", async () => (await replica.ask("ROLE")).includes("master"));
    await until("the worker serves the new master", () => events.includes("completed held"));
    await push(2, { id: "after" });
    await until("and is done", () => events.includes("completed after"));
  });
}

for (const [library, connect] of Object.entries(CLUSTER_CLIENTS)) {
  test(`a cluster: each command goes to its node at once (${library})`, { timeout: 180_000 }, async (t) => {
    const { masters: nodes } = await Cluster.start(t);
    const redis = await connect(t, nodes);
    const names = Array.from({ length: 12 }, (_, n) => `name${n}`);
    for (const name of names) {
      assert.equal((await new Limiter(redis, name, "5/1m").check("ann")).remaining, 4);
      assert.equal(await new ExpiringSet(redis, `set:${name}`).add("x", { ttl: "1m" }), 1);
      await takesAhead(redis, name);
      const storage = new NestStorage(redis, `nest:${name}`);
      for (const isBlocked of [false, true, true]) {
        assert.equal((await storage.increment("ann", 60_000, 1, 60_000)).isBlocked, isBlocked);
      }
    }
    const pair = [new Limiter(redis, "minute", "5/1m"), new Limiter(redis, "day", "50/1d")] as const;
    assert.equal((await checkAll([pair[0], "{ann}"], [pair[1], "{ann}"])).allowed, true);
    const workers = names.map((name) => {
      const next = new Queue<number>(redis, `next:{${name}}`);
      const cron = [new Cron("yearly", "0 0 1 1 *")];
      const { events } = work<number>({ redis, test: t }, [`{${name}}:urgent`, `jobs:{${name}}`], (job) => {
        job.chain(next.calls.push(job.payload, { id: job.id }));
      }, { cron });
      return { events, next, queue: new Queue<number>(redis, `jobs:{${name}}`) };
    });
    for (const { queue } of workers) await queue.pushMany([{ payload: 1, id: "a" }, { payload: 2, id: "b" }]);
    for (const { events, next } of workers) {
      await until("both are done", () => events.length === 2);
      assert.deepEqual([...events].sort(), ["completed a", "completed b"]);
      assert.equal((await next.stats())?.ready, 2);
    }
    for (const node of nodes) {
      assert.ok(!(await node.ask("INFO errorstats")).includes("errorstat_MOVED"), "nothing was sent to the wrong node");
    }
  });
}

/** Takes some units ahead, and gives unused units back. */
async function takesAhead(redis: RedisClient, name: string): Promise<void> {
  const limiter = new Limiter(redis, `ahead:${name}`, "1000/1h", { ahead: 50 });
  const checks = [];
  for (let n = 0; n < 20; n++) checks.push(await limiter.check("ann"));
  assert.ok(checks.every(({ allowed }) => allowed));
  assert.equal(await limiter.refund("ann", 1, checks[0] ?? 0), 1);
  assert.ok((await limiter.peek("ann")).remaining <= 981);
  await limiter.close();
  assert.equal((await limiter.peek("ann")).remaining, 981);
}

const VERSIONS: Record<string, (t: Test, url: string) => Promise<RedisClient>> = {
  "node-redis 5": async (t, url) => {
    const client = createClient5({ url });
    client.on("error", ignore);
    await client.connect();
    t.after(() => client.destroy());
    return client;
  },
  "node-redis, RESP2 and its own type mapping": async (t, url) => {
    const client = createClient({ url, RESP: 2, commandOptions: { typeMapping: { 36: Buffer, 58: String } } });
    client.on("error", ignore);
    await client.connect();
    t.after(() => client.destroy());
    return client;
  },
  "node-redis, RESP3": async (t, url) => {
    const client = createClient({ url, RESP: 3 });
    client.on("error", ignore);
    await client.connect();
    t.after(() => client.destroy());
    return client;
  },
  "ioredis 5": async (t, url) => {
    const client = new Redis5(url);
    client.on("error", ignore);
    t.after(() => client.disconnect());
    return client;
  },
  "ioredis, integers as text and automatic pipelines": async (t, url) => {
    const client = new Redis(url, { stringNumbers: true, enableAutoPipelining: true });
    client.on("error", ignore);
    t.after(() => client.disconnect());
    return client;
  },
};

for (const [version, connect] of Object.entries(VERSIONS)) {
  test(`works with ${version}`, { timeout: 60_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await connect(t, server.url);
    const check = await new Limiter(redis, "search", "5/1m").check("ann");
    assert.equal(check.remaining, 4);
    assert.ok(check.chargedUntilMs > Date.now());
    await takesAhead(redis, "ahead");
    const members = await new ExpiringSet(redis, "set").add(["a", "b"], { ttl: "1m" });
    assert.equal(members, 2);
    assert.deepEqual([...(await new ExpiringSet(redis, "set").membersWithTtl()).keys()], ["a", "b"]);
    assert.deepEqual(await new ExpiringSet(redis, "set").pop(1), ["a"]);
    const queue = new Queue<Buffer>(redis, "jobs", { codec: "bytes" });
    const tokens: number[] = [];
    const seen: Buffer[] = [];
    const { events } = work<Buffer>({ redis, test: t }, "jobs", (job) => {
      tokens.push(job.token);
      seen.push(job.payload);
      job.chain({ key: "done", words: ["INCR", "done"] });
    }, { codec: "bytes" });
    const raw = Buffer.from([255, 0, 128]);
    await queue.push(raw, { id: "a" });
    await until("it is done", () => events.length === 1);
    assert.deepEqual(events, ["completed a"]);
    assert.ok(tokens.every((token) => Number.isSafeInteger(token) && token > 1e15));
    assert.deepEqual(seen, [raw]);
    assert.equal((await queue.stats())?.["acked"], 1);
  });
}

test("a pool of node-redis serves for all but a worker", { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t);
  const pool = createClientPool({ url: server.url });
  pool.on("error", ignore);
  await pool.connect();
  t.after(() => void pool.destroy());
  assert.equal((await new Limiter(pool, "search", "5/1m").check("ann")).remaining, 4);
  await takesAhead(pool, "ahead");
  assert.equal(await new Queue(pool, "jobs").push(1, { id: "a" }), "a");
  await assert.rejects(work({ redis: pool, test: t }, "jobs", () => undefined).run, TypeError);
});
