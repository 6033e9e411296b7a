/**
 * Tests that the users of docs/operations.md may send all commands that the library sends for their tasks. `DOCS`: the
 * folder of that page.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Cluster, type Redis } from "ioredis";
import { createCluster } from "redis";
import { checkAll, Cron, Discard, Limiter, Queue, type RedisClient, Retry } from "zeitset";
import { ioredis, type Place, withEach } from "./support/clients.js";
import { Server, type Test } from "./support/server.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

const docs = process.env["DOCS"] ?? fileURLToPath(new URL("../../../../docs", import.meta.url));

const page = readFileSync(join(docs, "operations.md"), "utf8");

async function createUser(user: string, call: Place["call"], more: readonly string[] = []): Promise<void> {
  const line = page.split("\n").find((line) => line.startsWith(`user ${user} `));
  assert.ok(line, `${user} is documented`);
  await call("ACL", "SETUSER", ...line.split(" ").slice(1), ...more);
}

/** A client of a documented user. */
async function as(user: string, { call, connect, server, test }: Place): Promise<RedisClient> {
  await createUser(user, call);
  return connect(test, { url: server.url.replace("//", `//${user}:change-me@`) });
}

/**
 * Returns the commands that the server refused to users, except commands that the clients do not need: CLIENT SETINFO
 * (node-redis), CLIENT SETNAME and INFO (ioredis).
 */
async function refused({ call }: Pick<Place, "call">): Promise<string[]> {
  const entries = (await call("ACL", "LOG")) as string[][];
  const commands = entries.map((entry) => entry[entry.indexOf("object") + 1] ?? "");
  return commands.filter((command) => !["client|setinfo", "client|setname", "info"].includes(command));
}

withEach("the documented users push and work", async (place) => {
  const [producer, redis] = [await as("producer", place), await as("worker", place)];
  const queue = new Queue<string>(producer, "jobs:mails");
  const next = new Queue<string>(redis, "jobs:next");
  const { events, run, worker } = work<string>({ ...place, redis }, "jobs:mails", async (job) => {
    if (job.payload === "long") {
      await until("a heartbeat", async () => `${await place.call("INFO", "commandstats")}`.includes("cmdstat_ZQ.EXTEND:"));
    }
    if (job.payload === "chain") job.chain(next.calls.push("sent", { id: `${job.id}:next` }));
    if (job.attempt === 1 && job.payload === "fail") throw new Error("no");
    if (job.attempt === 1 && job.payload === "retry") throw new Retry({ after: "1ms" });
    if (job.payload === "discard") throw new Discard("never");
  }, { lease: "600ms", backoff: () => "1ms" });
  const payloads = ["plain", "long", "chain", "fail", "retry", "discard"];
  await queue.pushMany(payloads.map((payload) => ({ payload, id: payload })));
  await Promise.race([run, until("all are done", () => events.length === payloads.length + 2)]);
  await worker.stop();
  await run;
  assert.equal(events.filter((event) => event.startsWith("completed")).length, 5, `${events}`);
  assert.equal((await queue.get("discard"))?.state, "dead");
  assert.equal(await queue.cancel("discard"), 1);
  await queue.push("later", { id: "later", delay: "1h" });
  assert.ok(await queue.reschedule("later", { delay: "2h" }));
  assert.equal((await queue.stats())?.delayed, 1);
  assert.deepEqual(await refused(place), []);
});

withEach("the documented worker stops while it waits and while it works", async (place) => {
  const [producer, redis] = [await as("producer", place), await as("worker", place)];
  const queue = new Queue<string>(producer, "jobs:mails");
  const start = () => work<string>({ ...place, redis }, "jobs:mails", (job) =>
    new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason as Error))));
  const waiting = start();
  await until("it waits", async () => `${await place.call("INFO", "clients")}`.includes("blocked_clients:1"));
  await waiting.worker.stop({ grace: 0 });
  await waiting.run;
  const working = start();
  await queue.push("slow");
  await until("it works", async () => (await queue.stats())?.claimed === 1);
  await working.worker.stop({ grace: 0 });
  await working.run;
  assert.equal((await queue.stats())?.ready, 1);
  assert.deepEqual(await refused(place), []);
});

withEach("the documented worker keeps a schedule", async (place) => {
  const [producer, redis] = [await as("producer", place), await as("worker", place)];
  const queue = new Queue<string>(producer, "jobs:reports");
  for (const [month, expression] of [[0, "0 0 1 1 *"], [5, "0 0 1 6 *"]] as const) {
    const { events, run, worker } = work<string>({ ...place, redis }, "jobs:reports", () => undefined, {
      cron: [new Cron("yearly", expression)],
    });
    const due = async (): Promise<number> => new Date((await queue.get("yearly"))?.dueMs ?? "").getUTCMonth();
    await Promise.race([run, until("it waits for its month", async () => (await due()) === month)]);
    await queue.reschedule("yearly", { delay: 0 });
    await Promise.race([run, until("it has run", () => events.length === 1)]);
    await worker.stop();
    await run;
    assert.equal(await due(), month);
  }
  assert.deepEqual(await refused(place), []);
});

withEach("the documented limiter checks", async (place) => {
  const redis = await as("limiter", place);
  const minute = new Limiter(redis, "limit:minute", "5/1m");
  const day = new Limiter(redis, "limit:day", "50/1d");
  const check = await minute.check("ann", { cost: 2 });
  assert.ok(check.allowed && (await minute.peek("ann")).allowed);
  assert.equal(await minute.refund("ann", 1, check), 1);
  assert.ok((await checkAll([minute, "ann"], [day, "ann"])).allowed);
  assert.ok(await minute.reset("ann"));
  assert.deepEqual(await refused(place), []);
});

const CLUSTERS: Record<string, (t: Test, server: Server, username: string) => Promise<RedisClient>> = {
  "node-redis": async (t, { url }, username) => {
    const client = createCluster({ rootNodes: [{ url }], defaults: { username, password: "change-me" } });
    client.on("error", () => undefined);
    await client.connect();
    t.after(() => void client.destroy());
    return client;
  },
  ioredis: async (t, { port }, username) => {
    const client = new Cluster([{ host: "127.0.0.1", port }], { redisOptions: { username, password: "change-me" } });
    client.on("error", () => undefined);
    t.after(() => client.disconnect());
    await until("it is ready", () => client.status === "ready");
    return client;
  },
};

for (const [library, connect] of Object.entries(CLUSTERS)) {
  test(`with the rules for a cluster the documented users push and work (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t, { arguments: ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] });
    await server.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    await until("the cluster is up", async () => (await server.ask("CLUSTER INFO")).includes("cluster_state:ok"));
    const plain = (await ioredis(t, server)) as Redis;
    const call = (command = "", ...words: string[]): Promise<unknown> => plain.call(command, ...words);
    const [, more] = /of a cluster, add `([^`]*)`/.exec(page) ?? [];
    assert.ok(more);
    for (const user of ["producer", "worker"]) await createUser(user, call, more.split(" "));
    const queue = new Queue<string>(await connect(t, server, "producer"), "jobs:mails");
    const { events, run, worker } = work<string>({ redis: await connect(t, server, "worker"), test: t }, "jobs:mails", () => undefined);
    await queue.push("x", { id: "a" });
    await Promise.race([run, until("it is done", () => events.length === 1)]);
    await worker.stop();
    await run;
    assert.deepEqual(events, ["completed a"]);
    assert.deepEqual(await refused({ call }), []);
  });
}
