/**
 * Runs a worker for each queue, in a process of its own: node child.js <library> <url> <lease> <queue> ... The workers
 * print the jobs that they begin.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Worker } from "zeitset";

const [library, url = "", lease = "", ...queues] = process.argv.slice(2);
const redis = library === "ioredis" ? new Redis(url) : await createClient({ url }).connect();
const handler = async (job: { id: string; signal: AbortSignal }): Promise<void> => {
  console.log(job.id);
  await sleep(600_000, undefined, { signal: job.signal });
};
await Promise.all(queues.map((queue) => new Worker(redis, queue, handler, { lease, grace: { ms: 100 } }).run()));
if (redis instanceof Redis) redis.disconnect();
else redis.destroy();
