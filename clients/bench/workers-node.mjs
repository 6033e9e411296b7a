// Compares the jobs per second of a worker with BullMQ, and prints a page: node workers-node.mjs PORT VERSION
//
// PORT and VERSION are those of the Redis server. All jobs are pushed before the worker starts, and the handlers do
// nothing. So the figures are the cost of a job from its claim to its end.

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, Worker as BullWorker } from "bullmq";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Queue, Worker } from "zeitset";

const [, , PORT, VERSION] = process.argv;
const JOBS = Number(process.env.JOBS ?? 10_000);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const CONCURRENCIES = [1, 10, 100];
/** The number of customers, who are served in turns, and how many jobs of a customer may run at once. */
const CUSTOMERS = Number(process.env.CUSTOMERS ?? 1000);
const OF_CUSTOMERS = 100;
const PAYLOAD = { to: "ann", subject: "x".repeat(80) };
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

const redis = new Redis(PORT, { maxRetriesPerRequest: null });
redis.on("error", () => undefined);
const nodeRedis = createClient({ url: `redis://127.0.0.1:${PORT}` });
nodeRedis.on("error", () => undefined);
await nodeRedis.connect();

/** Returns the server's processor time in seconds. */
async function serverCpu() {
  const info = await redis.info("cpu");
  return ["used_cpu_sys", "used_cpu_user"].reduce((sum, name) => sum + Number(new RegExp(`${name}:([\\d.]+)`).exec(info)[1]), 0);
}

/**
 * Calls `start(done)`, which starts a worker, and returns a function that stops the worker. The worker calls `done` for
 * each job.
 */
async function measure(start) {
  let left = JOBS;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const [cpu, own, begin] = [await serverCpu(), process.cpuUsage(), performance.now()];
  const stop = await start(() => {
    left -= 1;
    if (left === 0) finish();
  });
  await finished;
  const seconds = (performance.now() - begin) / 1000;
  const used = process.cpuUsage(own);
  const result = { rate: JOBS / seconds, server: ((await serverCpu()) - cpu) * (1e6 / JOBS), own: (used.user + used.system) / JOBS };
  await stop();
  await redis.flushall();
  return result;
}

/** `groupOf` returns the group of the job with a number, if it has one. */
function zeitset(client, groupOf = () => undefined) {
  return async (concurrency) => {
    const queue = new Queue(client, "jobs");
    for (let at = 0; at < JOBS; at += 1000) {
      await queue.pushMany(Array.from({ length: 1000 }, (_, i) => ({ payload: PAYLOAD, group: groupOf(at + i) })));
    }
    return measure(async (done) => {
      const worker = new Worker(client, "jobs", async () => undefined, { concurrency, signals: false });
      worker.on("completed", done);
      const run = worker.run();
      return async () => {
        await worker.stop();
        await run;
      };
    });
  };
}

async function bullmq(concurrency) {
  const queue = new BullQueue("jobs", { connection: redis });
  const options = { removeOnComplete: true };
  for (let at = 0; at < JOBS; at += 1000) {
    await queue.addBulk(Array.from({ length: 1000 }, () => ({ name: "job", data: PAYLOAD, opts: options })));
  }
  const result = await measure(async (done) => {
    const worker = new BullWorker("jobs", async () => undefined, { connection: redis, concurrency });
    worker.on("completed", done);
    return () => worker.close();
  });
  await queue.close();
  return result;
}

/**
 * Fair shares without BullMQ's commercial edition: a queue and a worker for each customer. The workers connect before
 * the measurement.
 */
async function bullmqQueues() {
  const workers = [];
  let done = () => undefined;
  for (let customer = 0; customer < CUSTOMERS; customer += 1) {
    const queue = new BullQueue(`jobs-${customer}`, { connection: redis });
    await queue.addBulk(
      Array.from({ length: JOBS / CUSTOMERS }, () => ({ name: "job", data: PAYLOAD, opts: { removeOnComplete: true } })),
    );
    const worker = new BullWorker(`jobs-${customer}`, async () => undefined, { connection: redis, concurrency: 1, autorun: false });
    worker.on("completed", () => done());
    worker.on("error", () => undefined);
    await worker.waitUntilReady();
    workers.push(worker);
  }
  return measure(async (one) => {
    done = one;
    for (const worker of workers) worker.run().catch(() => undefined);
    return () => Promise.all(workers.map((worker) => worker.close(true)));
  });
}

const contestants = {
  [`zeitset on node-redis ${version("redis")}`]: zeitset(nodeRedis),
  [`zeitset on ioredis ${version("ioredis")}`]: zeitset(redis),
  [`BullMQ ${version("bullmq")}`]: bullmq,
};

const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const results = new Map();

/**
 * Runs rounds in which the contestants take turns. The first round is a warm-up. The results are stored under
 * `${label} ${name}`.
 */
async function contest(label, contestants, run) {
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [name, contestant] of Object.entries(contestants)) {
      const result = await run(contestant);
      process.stderr.write(`${label} ${name}: ${Math.round(result.rate)} jobs/s${round === 0 ? " (warming up)" : ""}\n`);
      if (round === 0) continue;
      const key = `${label} ${name}`;
      results.set(key, [...(results.get(key) ?? []), result]);
      await sleep(50);
    }
  }
}

for (const concurrency of CONCURRENCIES) await contest(concurrency, contestants, (contestant) => contestant(concurrency));
const customerOf = (job) => `customer:${job % CUSTOMERS}`;
const fair = {
  [`zeitset on node-redis ${version("redis")}, a group for each customer`]: zeitset(nodeRedis, customerOf),
  [`zeitset on ioredis ${version("ioredis")}, a group for each customer`]: zeitset(redis, customerOf),
  [`BullMQ ${version("bullmq")}, a queue and a worker for each customer`]: bullmqQueues,
};
await contest("customers", fair, (contestant) => contestant(OF_CUSTOMERS));

const date = new Date().toISOString().slice(0, 10);
console.log(`# Workers in Node.js

On ${date}, the workers and Redis ${VERSION} without persistence ran on one machine with ${cpus().length} cores, with Node.js ${process.versions.node}.
${JOBS.toLocaleString("en")} jobs of about 110 bytes are pushed before the measurement. The handler does nothing, and finished jobs are
removed. Each figure is the median of ${ROUNDS} rounds, in which the libraries take turns. \`make bench-clients\` repeats the
measurement.

| jobs at once | | jobs/s | against BullMQ | CPU of the server, µs a job | CPU of the worker, µs a job |
|--:|---|--:|--:|--:|--:|`);

/** Returns a row for each contestant. Each row compares the contestant with the last contestant. */
function rows(label, contestants) {
  const of = (name, field) => median(results.get(`${label} ${name}`).map((result) => result[field]));
  const names = Object.keys(contestants);
  const bull = of(names.at(-1), "rate");
  return names.map((name) => {
    const rate = of(name, "rate");
    return [name, Math.round(rate).toLocaleString("en"), `${(rate / bull).toFixed(1)} ×`, of(name, "server").toFixed(0), of(name, "own").toFixed(0)];
  });
}
for (const concurrency of CONCURRENCIES) {
  for (const row of rows(concurrency, contestants)) console.log(`| ${concurrency} | ${row.join(" | ")} |`);
}
console.log(`
In the next table, the same jobs belong to ${CUSTOMERS.toLocaleString("en")} customers, who take turns. With Zeitset, each customer is a group of
one queue, and one worker runs ${OF_CUSTOMERS} jobs at once. BullMQ has groups only in its commercial edition, so here each
customer has a queue and a worker of its own. All workers of BullMQ are in one process, and are connected before the
clock starts.

| | jobs/s | against BullMQ | CPU of the server, µs a job | CPU of the worker, µs a job |
|---|--:|--:|--:|--:|`);
for (const row of rows("customers", fair)) console.log(`| ${row.join(" | ")} |`);
nodeRedis.destroy();
redis.disconnect();
process.exit(0);
