/**
 * Node.js and Python: a client of one language pushes jobs, and a worker of the other language handles them.
 * ZEITSET_PYTHON names a Python that has the library.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Queue, Worker } from "zeitset";
import { nodeRedis } from "./support/clients.js";
import { Server } from "./support/server.js";

const PYTHON = process.env["ZEITSET_PYTHON"];
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SEEN = ["plain", { to: "ann é" }, null, null];
const HEADED = ["headed", { to: "ann é" }, TRACEPARENT, 3_600_000];
const OPTIONS = { skip: PYTHON ? false : "ZEITSET_PYTHON names no Python", timeout: 60_000 };

const PUSHES = `
import sys, redis
from zeitset import Queue
queue = Queue(redis.Redis.from_url(sys.argv[1]), "jobs")
queue.push({"to": "ann é"}, id="plain")
queue.push({"to": "ann é"}, id="headed", traceparent="${TRACEPARENT}", timeout="1h")
queue.push("x", id="short", timeout="20ms", max_attempts=1)
`;

const HANDLES = `
import asyncio, json, sys, redis
from zeitset import Worker

async def handle(job):
    if job.id == "short":
        await asyncio.sleep(60)
    await asyncio.sleep(0.3)
    print(json.dumps([job.id, job.payload, job.traceparent, job.timeout_ms]))

Worker(redis.Redis.from_url(sys.argv[1]), "jobs", handle, concurrency=1).run(burst=True)
`;

const python = (program: string, url: string) => promisify(execFile)(PYTHON ?? "", ["-c", program, url]);

test("Python pushes, Node.js handles", OPTIONS, async (t) => {
  const server = await Server.start(t);
  const redis = await nodeRedis(t, server);
  await python(PUSHES, server.url);
  const seen: unknown[] = [];
  const worker = new Worker(redis, "jobs", async (job) => {
    await sleep(job.id === "short" ? 60_000 : 300, undefined, { signal: job.signal });
    seen.push([job.id, job.payload, job.traceparent ?? null, job.timeoutMs ?? null]);
  }, { signals: false });
  await worker.run({ burst: true });
  assert.deepEqual(seen, [SEEN, HEADED]);
  assert.equal((await new Queue(redis, "jobs").get("short"))?.error, "TimeoutError: ran longer than 20ms");
});

test("Node.js pushes, Python handles", OPTIONS, async (t) => {
  const server = await Server.start(t);
  const queue = new Queue(await nodeRedis(t, server), "jobs");
  await queue.push({ to: "ann é" }, { id: "plain" });
  await queue.push({ to: "ann é" }, { id: "headed", traceparent: TRACEPARENT, timeout: "1h" });
  await queue.push("x", { id: "short", timeout: "20ms", maxAttempts: 1 });
  const { stdout } = await python(HANDLES, server.url);
  assert.deepEqual(stdout.trim().split("\n").map((line) => JSON.parse(line)), [SEEN, HEADED]);
  assert.equal((await queue.get("short"))?.error, "TimeoutError: ran longer than 0.02 s");
});
