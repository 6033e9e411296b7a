// A tour of Zeitset with node-redis: node tour.js [redis://localhost:6379]

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { check, claim, run } from "./zeitset.js";

const redis = await createClient({ url: process.argv[2], RESP: 3 }).connect();
await redis.del(["tour:otp", "tour:seen", "tour:search", "tour:knock", "tour:mails", "tour:medals"]);

async function oneTimeCodes() {
  console.log("One-time codes: three at most, five minutes each");
  for (const code of ["493811", "882015", "120374", "700126"]) {
    const stored = await run(redis, "ZEXP.ADD", "tour:otp", "CAP", 3, "5m", code);
    console.log(`  ${code}: ${stored === null ? "refused" : "stored"}`);
  }
  for (const code of ["882015", "882015"]) {
    // Removing is the test: of two who come with the same code, one gets in.
    const removed = await run(redis, "ZEXP.REM", "tour:otp", code);
    console.log(`  ${code}: ${removed ? "right" : "wrong"}`);
  }
}

async function seenBefore() {
  console.log("Seen before? Remembered for 60 days");
  for (const message of ["message-4711", "message-4711"]) {
    const isNew = await run(redis, "ZEXP.ADD", "tour:seen", "NX", "60d", message);
    console.log(`  ${message}: ${isNew ? "new" : "seen"}`);
  }
}

async function rateLimit() {
  console.log("Rate limit: five searches a minute");
  let limit;
  while ((limit = await check(redis, "tour:search", 5, "1m")).allowed) {
    console.log(`  allowed, ${limit.remaining} remaining`);
  }
  console.log("  denied");
  for (const [name, value] of Object.entries(limit.headers("search", 60))) console.log(`    ${name}: ${value}`);
  await check(redis, "tour:knock", 1, "250ms");
  while (!(limit = await check(redis, "tour:knock", 1, "250ms")).allowed) await sleep(limit.retryAfterMs);
  console.log("  whoever waits as told is let in");
}

async function worker() {
  const connection = await redis.duplicate().connect();
  for (let done = 0; done < 3; ) {
    const job = await claim(connection, "tour:mails", "30s", "10s");
    if (job === null) continue;
    if (job.payload === "welcome-ann" && job.attempt === 1) {
      await run(redis, "ZQ.NACK", job.queue, job.id, job.token);
      console.log(`  ${job.payload}: failed, given back`);
    } else if (await run(redis, "ZQ.ACK", job.queue, job.id, job.token)) {
      done += 1;
      console.log(`  ${job.payload}: done${job.attempt > 1 ? ` at attempt ${job.attempt}` : ""}`);
    }
  }
  await connection.close();
}

async function queue() {
  console.log("Queue: by priority, delayed, one failure");
  await run(redis, "ZQ.PUSH", "tour:mails", "welcome-ann", "ID", "mail:1");
  await run(redis, "ZQ.PUSH", "tour:mails", "reminder-bob", "ID", "mail:2", "DELAY", "500ms", "PRIORITY", 10);
  await run(redis, "ZQ.PUSH", "tour:mails", "password-eve", "ID", "mail:3", "PRIORITY", -10);
  await worker();
  const { pushed, acked, nacked } = await run(redis, "ZQ.STATS", "tour:mails");
  console.log(`  ${pushed} pushed, ${acked} done, ${nacked} given back`);
}

async function leaderboard() {
  console.log("Leaderboard: gold, then silver, then bronze");
  await run(redis, "ZLB.CREATE", "tour:medals", "DIM", "gold", "DIM", "silver", "DIM", "bronze");
  await run(redis, "ZLB.SET", "tour:medals", "Japan", 20, 12, 13, "USA", 40, 44, 42, "China", 40, 27, 24);
  const rows = await run(redis, "ZLB.RANGE", "tour:medals", 0, -1, "WITHVALUES");
  rows.forEach((row, rank) => console.log(`  ${rank} ${row.join(" ")}`));
  await run(redis, "ZLB.INCR", "tour:medals", "China", "gold", 1);
  console.log(`  one more gold for China: rank ${await run(redis, "ZLB.RANK", "tour:medals", "China")}`);
}

await oneTimeCodes();
await seenBefore();
await rateLimit();
await queue();
await leaderboard();
await redis.close();
