// A tour of Zeitset with node-redis: node tour.js [redis://localhost:6379]

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { Board, ExpiringSet, Limiter, Queue, Retry, Worker } from "zeitset";

const redis = await createClient({ url: process.argv[2] }).connect();
await redis.del(["tour:otp", "tour:seen", "search:tour", "knock:tour", "tour:mails", "tour:medals"]);

async function oneTimeCodes() {
  console.log("One-time codes: three at most, five minutes each");
  const codes = new ExpiringSet(redis, "tour:otp");
  for (const code of ["493811", "882015", "120374", "700126"]) {
    const stored = await codes.add(code, { ttl: "5m", cap: 3 });
    console.log(`  ${code}: ${stored === null ? "refused" : "stored"}`);
  }
  for (const code of ["882015", "882015"]) {
    // The removal is the test. If two clients send the same code, only one of them removes it.
    const removed = await codes.remove(code);
    console.log(`  ${code}: ${removed ? "right" : "wrong"}`);
  }
}

async function seenBefore() {
  console.log("Seen before? Remembered for 60 days");
  const seen = new ExpiringSet(redis, "tour:seen");
  for (const message of ["message-4711", "message-4711"]) {
    const isNew = await seen.add(message, { ttl: "60d", only: "new" });
    console.log(`  ${message}: ${isNew ? "new" : "seen"}`);
  }
}

async function rateLimit() {
  console.log("Rate limit: five searches a minute");
  const searches = new Limiter(redis, "search", "5/1m");
  let check;
  while ((check = await searches.check("tour")).allowed) {
    console.log(`  allowed, ${check.remaining} remaining`);
  }
  console.log("  denied");
  for (const [name, value] of Object.entries(check.headers())) console.log(`    ${name}: ${value}`);
  const knocks = new Limiter(redis, "knock", "1/250ms");
  await knocks.check("tour");
  while (!(check = await knocks.check("tour")).allowed) await sleep(check.retryAfterMs);
  console.log("  allowed after the wait");
}

async function queue() {
  console.log("Queue: by priority, delayed, one failure");
  const mails = new Queue(redis, "tour:mails");
  await mails.push("welcome-ann", { id: "mail:1" });
  await mails.push("reminder-bob", { id: "mail:2", delay: "500ms", priority: 10 });
  await mails.push("password-eve", { id: "mail:3", priority: -10 });
  const handler = ({ payload, attempt }) => {
    if (payload === "welcome-ann" && attempt === 1) throw new Retry({ after: 0 });
  };
  const worker = new Worker(redis, mails.key, handler, { concurrency: 1 });
  worker.on("retried", ({ job }) => console.log(`  ${job.payload}: failed, returned`));
  worker.on("completed", ({ job }) => {
    console.log(`  ${job.payload}: done${job.attempt > 1 ? ` at attempt ${job.attempt}` : ""}`);
    if (job.payload === "reminder-bob") worker.stop();
  });
  await worker.run();
  const { pushed, acked, nacked } = await mails.stats();
  console.log(`  ${pushed} pushed, ${acked} done, ${nacked} returned`);
}

async function leaderboard() {
  console.log("Leaderboard: gold, then silver, then bronze");
  const medals = new Board(redis, "tour:medals", ["gold", "silver", "bronze"]);
  await medals.create();
  await medals.setMany([
    ["Japan", { gold: 20, silver: 12, bronze: 13 }],
    ["USA", { gold: 40, silver: 44, bronze: 42 }],
    ["China", { gold: 40, silver: 27, bronze: 24 }],
  ]);
  for (const { rank, member, values } of await medals.range()) {
    console.log(`  ${rank} ${member} ${values.gold} ${values.silver} ${values.bronze}`);
  }
  const { rank } = await medals.incr("China", { gold: 1 });
  console.log(`  one more gold for China: rank ${rank}`);
}

await oneTimeCodes();
await seenBefore();
await rateLimit();
await queue();
await leaderboard();
await redis.close();
