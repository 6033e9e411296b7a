/**
 * Workers during faults, and a ledger of all jobs. CHAOS_SECONDS is the length of the run (default 30), and CHAOS_SEED
 * repeats a run: `CHAOS_SECONDS=600 npm run chaos`. No job may be lost, remain undone, or run again after its ACK was
 * accepted. No worker may end by itself. Servers and workers stand still for 1 to 40 s. They are killed and restarted,
 * or a replica replaces the server. The network loses replies, holds them back, or sends garbage. The memory of the
 * server is full.
 *
 * The ledger counts a command as accepted if the replica has it: see `Pair`. If a push is in doubt, its job need not
 * run. If an ACK or a claim is in doubt, the job may run again.
 *
 * Some jobs have a TTL. Some are pushed again and again with the same id (AGAIN). Some belong to groups, which the run
 * and its workers hold.
 */

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { Queue } from "zeitset";
import type { Payload } from "./support/chaos_worker.js";
import { type Hold, judge, type Push, type Report } from "./support/ledger.js";
import { Pair } from "./support/pair.js";
import type { Proxy } from "./support/proxy.js";
import { until } from "./support/until.js";

const seconds = Number(process.env["CHAOS_SECONDS"] ?? 30);
const seed = Number(process.env["CHAOS_SEED"] ?? Math.floor(Math.random() * 2 ** 32));

/** Returns random numbers from 0 to 1, by the seed (mulberry32). */
let state = seed;
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;

const cleanups: (() => void | Promise<void>)[] = [];
const here = { after: (fn: () => void | Promise<void>) => void cleanups.unshift(fn) };

const pair = await Pair.start(here, 5);
const [own, ...proxies] = pair.proxies;
// No command is sent twice: if a push is repeated after its job is done, it adds the job again.
const direct = new Redis(own!.url, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 });
direct.on("error", () => undefined);
cleanups.unshift(() => direct.disconnect());
const queue = new Queue<Payload>(direct, "chaos");

interface Member {
  readonly library: string;
  readonly proxy: Proxy;
  process: ChildProcess;
  /** Whether the worker was killed, or told to stop. */
  isEnding: boolean;
}

const reports: Report[] = [];
const endedByThemselves: string[] = [];

function start(library: string, proxy: Proxy): Member {
  const process = fork(fileURLToPath(new URL("support/chaos_worker.js", import.meta.url)), [library, proxy.url]);
  const member: Member = { library, proxy, process, isEnding: false };
  process.on("message", (message: Report) => {
    if (message.what !== "ended") reports.push(message);
    else if (!member.isEnding) endedByThemselves.push(`${library}: ${message.error ?? "run() returned"}`);
  });
  process.on("exit", (code, signal) => {
    if (member.isEnding) return;
    endedByThemselves.push(`${library}: exit ${code} ${signal}`);
    replace(member);
  });
  return member;
}

const members: Member[] = [];
for (const [at, proxy] of proxies.entries()) members.push(start(at % 2 ? "ioredis" : "node-redis", proxy));
cleanups.unshift(() => members.forEach(({ process }) => process.kill("SIGKILL")));

const stands = (): number => 1000 + Math.min(39_000, 300 * seconds) * random() ** 3;
const COMMANDS = ["ZQ.CLAIM", "ZQ.ACK", "ZQ.EXTEND", "ZQ.NACK", "EXEC"];
const GARBAGE = ["HTTP/1.1 502 Bad Gateway\r\n\r\n", ":abc\r\n", "-ERR proxy: no backend\r\n", "+OK\r\n", ":7\r\n", "$5\r\nhello\r\n"];

const replace = (member: Member): void => {
  members[members.indexOf(member)] = start(member.library, member.proxy);
};

async function partition(proxies: readonly Proxy[]): Promise<void> {
  for (const proxy of proxies) proxy.isPartitioned = true;
  await sleep(stands());
  for (const proxy of proxies) proxy.isPartitioned = false;
}

const FAULTS: Record<string, () => Promise<void>> = {
  "the server stands still": () => pair.primary.frozen(() => sleep(stands())),
  "a worker stands still": async () => {
    const { process } = pick(members);
    process.kill("SIGSTOP");
    await sleep(stands());
    process.kill("SIGCONT");
  },
  "a partition": () => partition([pick(members).proxy]),
  // Leases expire, but no other worker claims these jobs, so a late ACK would count.
  "a partition of all": () => partition(members.map(({ proxy }) => proxy)),
  garbage: async () => {
    pick(members).proxy.answer = [pick(COMMANDS), pick(GARBAGE)];
    await sleep(500 * random());
  },
  "a lost reply": async () => {
    pick(members).proxy.loseReplyTo = pick(COMMANDS);
    await sleep(500 * random());
  },
  "half a reply": async () => {
    const { proxy } = pick(members);
    proxy.halves = true;
    proxy.loseReplyTo = pick(COMMANDS);
    await sleep(500 * random());
  },
  "a reset": async () => {
    pick(members).proxy.reset();
    await sleep(500 * random());
  },
  "no memory": async () => {
    await direct.call("CONFIG", "SET", "maxmemory", "1").catch(() => undefined);
    await sleep(5000 * random());
    await until("memory again", () => direct.call("CONFIG", "SET", "maxmemory", "0").then(() => true, () => false));
  },
  "kill -9 of a worker": async () => {
    const member = pick(members);
    member.isEnding = true;
    member.process.kill("SIGKILL");
    replace(member);
    await sleep(2000 * random());
  },
  "SIGTERM of a worker": async () => {
    const member = pick(members);
    member.isEnding = true;
    const ended = new Promise((resolve) => member.process.once("exit", resolve));
    member.process.kill("SIGTERM");
    replace(member);
    await ended;
  },
  "kill -9 of the server": async () => {
    await pair.primary.kill();
    await sleep(2000 * random());
    await pair.primary.run();
  },
  "a failover": async () => {
    await until("the replica is in sync", () => pair.isInSync());
    await pair.failOver(pick([0, 0, 300, 1000]), 1000 * random());
  },
};

const counts = new Map<string, number>();

/**
 * Causes one fault after the other. Two calls run at the same time, and only one of them causes faults of the server.
 */
async function trouble(names: readonly string[], first = names): Promise<void> {
  for (let choice = first; Date.now() < end; choice = names) {
    const name = pick(choice);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    await FAULTS[name]!();
    await sleep(1500 * random());
  }
}

const GROUPS = ["a", "b", "c", "d"];
const pushes: Push[] = [];
async function push(): Promise<void> {
  for (let number = 0; Date.now() < end; number += 1) {
    const kind = pick(["plain", "plain", "ttl", "again", "group"]);
    const cancelled = pick(["returns", "throws", "goes on"] as const);
    // Some jobs take longer than a lease, so that a lease is lost while they run.
    const ms = 10_000 * random() ** 8;
    const chains = kind === "plain" && random() < 0.3;
    const payload = { number, ms, cancelled, fails: random() < 0.1, chains, holds: kind === "group" && random() < 0.1 };
    const id = kind === "again" ? `again:${pick([0, 1, 2, 3])}` : `${kind}:${number}`;
    const group = kind === "ttl" || kind === "group" ? pick(GROUPS) : undefined;
    const ttlMs = kind === "ttl" ? Math.ceil(4000 * random()) : undefined;
    const options = { id, maxAttempts: 0, again: kind === "again", ...(group && { group }), ...(ttlMs && { ttl: `${ttlMs}ms` }) };
    const askedMs = Date.now();
    const repliedMs = await queue.push(payload, options).then(() => Date.now(), () => undefined);
    pushes.push({ number, id, askedMs, repliedMs, group, ttlMs, chains });
    // On average, 24 of the 40 slots are in use. The others are for jobs that wait after an outage.
    await sleep(60);
  }
}

const holds: Hold[] = [];
/** Holds and releases one group after the other. */
async function hold(): Promise<void> {
  while (Date.now() < end) {
    const group = pick(GROUPS);
    for (const ms of [Math.ceil(5000 * random()), 0]) {
      const askedMs = Date.now();
      const isAccepted = await queue.hold(group, `${ms}ms`).catch(() => false);
      holds.push({ group, askedMs, repliedMs: Date.now(), ms, isAccepted });
      await sleep(Math.min(ms && 5000 * random(), Math.max(0, end - Date.now())));
    }
  }
}

const names = Object.keys(FAULTS);
const quick: Payload = { number: -1, ms: 0, cancelled: "throws", fails: false, chains: false, holds: false };
// A hold also ends when the last job of its group is removed.
for (const group of GROUPS) await queue.push(quick, { id: group, group, delay: "1d" });
await queue.push(quick, { id: "first" });
await until("jobs run", () => reports.some(({ what, id }) => what === "completed" && id === "first"));
await direct.wait(1, 5000);
const end = Date.now() + 1000 * seconds;
const serverless = names.filter((name) => !/server|memory|failover/.test(name));
await Promise.all([push(), hold(), trouble(names, ["a failover"]), trouble(serverless)]);
for (const { process, proxy } of members) {
  process.kill("SIGCONT");
  proxy.isPartitioned = false;
}
try {
  await until("a connection", () => direct.ping().then(() => true, () => false));
  assert.equal(await queue.cancel(GROUPS), GROUPS.length);
  await until("the queue is empty", async () => {
    const { ready, delayed, claimed } = (await queue.stats().catch(() => null)) ?? { ready: 1, delayed: 0, claimed: 0 };
    return ready + delayed + claimed === 0;
  }, 120_000 + 250 * seconds);
  await sleep(1000);
} finally {
  const stats = await queue.stats();
  assert.ok(stats);
  const { figures, violations } = judge(reports, pushes, holds, (earliestMs, latestMs) => pair.isInDoubt(earliestMs, latestMs), stats["expired"] as number);
  const faults = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const count = (what: Report["what"]): number => reports.filter((message) => message.what === what).length;
  console.log(Object.fromEntries(counts));
  console.log({
    seconds, seed, faults, pushes: pushes.length, ...figures, troubles: count("trouble"), stale: count("stale"), acked: stats["acked"],
    doubtSeconds: pair.doubtSeconds, left: stats.ready + stats.delayed + stats.claimed, dead: stats.dead, endedByThemselves, ...violations,
  });
  // Prints jobs that are left, and their runs.
  for (const state of ["ready", "delayed", "claimed"] as const) {
    for (const { id } of await queue.peek(state, { count: 5 })) console.log(Date.now(), await queue.get(id), reports.filter((message) => message.id === id));
  }
  for (const member of members) member.isEnding = true;
  for (const clean of cleanups) await clean();
  const none = { lost: [], undone: [], again: [], twice: [], late: [], claimedFromHeldGroups: [], neitherDoneNorDropped: 0, droppedTooOften: 0 };
  assert.deepEqual({ dead: stats.dead, endedByThemselves, ...violations }, { dead: 0, endedByThemselves: [], ...none });
  const { dropped, againDuringARun, holds: held, holdsByWorkers, claimsOfOthersDuringHolds } = figures;
  const covered = { dropped, againDuringARun, held, holdsByWorkers, claimsOfOthersDuringHolds };
  if (seconds >= 60) assert.ok(Object.values(covered).every((count) => count > 0), JSON.stringify(covered));
}
process.exit();
