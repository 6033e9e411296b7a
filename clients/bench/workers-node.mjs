// Jobs a second of a worker against BullMQ, in one run: node workers-node.mjs MODULE >workers-node.md
//
// All jobs are pushed before the worker starts, and a handler does nothing, so what is measured is what a job costs: taking it,
// finishing it, and everything between. Rounds of the contestants take turns; the median is shown.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, Worker as BullWorker } from "bullmq";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Queue, Worker } from "zeitset";

const MODULE = process.argv[2];
const JOBS = Number(process.env.JOBS ?? 10_000);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const CONCURRENCIES = [1, 10, 100];
const PORT = Number(process.env.BENCH_PORT ?? 17_379);
const PAYLOAD = { to: "ann", subject: "x".repeat(80) };
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

const folder = mkdtempSync(join(tmpdir(), "zeitset-bench-"));
const program = process.env.REDIS_SERVER ?? "redis-server";
const words = ["--port", PORT, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--loadmodule", MODULE];
const server = spawn(program, words.map(String), { stdio: "ignore" });
process.on("exit", () => {
  server.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const redis = new Redis(PORT, { maxRetriesPerRequest: null });
redis.on("error", () => undefined);
const nodeRedis = createClient({ url: `redis://127.0.0.1:${PORT}` });
nodeRedis.on("error", () => undefined);
await redis.ping();
await nodeRedis.connect();

/** Seconds of processor time of the server. */
async function serverCpu() {
  const info = await redis.info("cpu");
  return ["used_cpu_sys", "used_cpu_user"].reduce((sum, name) => sum + Number(new RegExp(`${name}:([\\d.]+)`).exec(info)[1]), 0);
}

/** Runs `start(done)`, which starts a worker and answers how to stop it; `done` is called for each job. */
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

function zeitset(client) {
  return async (concurrency) => {
    const queue = new Queue(client, "jobs");
    for (let at = 0; at < JOBS; at += 1000) await queue.pushMany(Array.from({ length: 1000 }, () => ({ payload: PAYLOAD })));
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

const contestants = {
  [`zeitset on node-redis ${version("redis")}`]: zeitset(nodeRedis),
  [`zeitset on ioredis ${version("ioredis")}`]: zeitset(redis),
  [`BullMQ ${version("bullmq")}`]: bullmq,
};

const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const results = new Map();
for (const concurrency of CONCURRENCIES) {
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [name, contestant] of Object.entries(contestants)) {
      const result = await contestant(concurrency);
      process.stderr.write(`${concurrency} ${name}: ${Math.round(result.rate)} jobs/s${round === 0 ? " (warming up)" : ""}\n`);
      if (round === 0) continue;
      const key = `${concurrency} ${name}`;
      results.set(key, [...(results.get(key) ?? []), result]);
      await sleep(50);
    }
  }
}

const date = new Date().toISOString().slice(0, 10);
const serverVersion = /redis_version:(\S+)/.exec(await redis.info("server"))[1];
console.log(`# Workers in Node.js

${date}, ${cpus().length} cores, Node.js ${process.versions.node}, Redis ${serverVersion} without persistence, everything on one machine: client
and server share its cores. ${JOBS.toLocaleString("en")} jobs of about 110 bytes, pushed beforehand; the handler does nothing; finished jobs are
removed. The median of ${ROUNDS} rounds, which took turns. \`make bench-clients\` repeats it.

| jobs at once | | jobs/s | against BullMQ | CPU of the server, µs a job | of the worker |
|--:|---|--:|--:|--:|--:|`);
for (const concurrency of CONCURRENCIES) {
  const of = (name, field) => median(results.get(`${concurrency} ${name}`).map((result) => result[field]));
  const names = Object.keys(contestants);
  const bull = of(names.at(-1), "rate");
  for (const name of names) {
    const rate = of(name, "rate");
    const figures = [Math.round(rate).toLocaleString("en"), `${(rate / bull).toFixed(1)} ×`, of(name, "server").toFixed(0), of(name, "own").toFixed(0)];
    console.log(`| ${concurrency} | ${name} | ${figures.join(" | ")} |`);
  }
}
nodeRedis.destroy();
redis.disconnect();
process.exit(0);
