/** A worker in a process of its own: node child.js <library> <url> <queue> <lease>. It prints the jobs that it begins. */

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Worker } from "zeitset";

const [library, url = "", queue = "", lease = ""] = process.argv.slice(2);
const redis = library === "ioredis" ? new Redis(url) : await createClient({ url }).connect();
const handler = async (job: { id: string; signal: AbortSignal }): Promise<void> => {
  console.log(job.id);
  await sleep(600_000, undefined, { signal: job.signal });
};
await new Worker(redis, queue, handler, { lease, grace: 100 }).run();
if (redis instanceof Redis) redis.disconnect();
else redis.destroy();
