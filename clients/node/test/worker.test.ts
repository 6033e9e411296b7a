import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { Discard, type Job, Queue, Retry, Worker } from "zeitset";
import { ioredis, withEach } from "./support/clients.js";
import { deferred, until } from "./support/until.js";
import { thrown } from "./support/thrown.js";
import { work } from "./support/work.js";

withEach("jobs are handled, acknowledged, and gone", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  const seen: number[] = [];
  const { events, worker } = work<number>(place, "jobs", (job) => {
    assert.equal(job.attempt, 1);
    assert.ok(job.token > 1e15 && Number.isSafeInteger(job.token), `${job.token}`);
    seen.push(job.payload);
  });
  // Pushes a job while the worker waits, many jobs at once, and one job with a delay.
  await until("it runs", () => worker.state === "running");
  await queue.push(0);
  await queue.pushMany(Array.from({ length: 99 }, (_, n) => ({ payload: n + 1 })));
  await queue.push(100, { delay: "200ms" });
  await until("all are done", () => events.length === 101);
  assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 101 }, (_, n) => n));
  const stats = await queue.stats();
  assert.ok(stats);
  assert.deepEqual([stats.ready, stats.delayed, stats.claimed, stats.dead, stats["acked"]], [0, 0, 0, 0, 101]);
  await worker.stop();
  assert.equal(worker.state, "stopped");
});

withEach("no more jobs are held than run", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  await queue.pushMany(Array.from({ length: 20 }, (_, payload) => ({ payload })));
  let running = 0;
  let most = 0;
  const gate = deferred();
  const { events } = work(place, "jobs", async () => {
    running += 1;
    most = Math.max(most, running);
    if (events.length < 3) await gate.promise;
    running -= 1;
  }, { concurrency: 3 });
  await until("three run", () => running === 3);
  assert.equal((await queue.stats())?.claimed, 3);
  gate.resolve();
  await until("all are done", () => events.length === 20);
  assert.equal(most, 3);
});

withEach("a failure is given back with its error, after the queue's BACKOFF or the worker's own", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const { events } = work<string>(place, "jobs", (job) => {
    if (job.attempt < 3) throw new TypeError(`no ${job.payload}`);
  }, { backoff: () => "3h" });
  await queue.push("tea", { id: "a" });
  await until("it fails", () => events.length === 1);
  const job = await queue.get("a");
  assert.equal(job?.state, "delayed");
  assert.equal(job?.error, "TypeError: no tea");
  const wait = (job?.dueMs ?? 0) - Date.now();
  assert.ok(wait > 2.9 * 3_600_000 && wait < 3.1 * 3_600_000, `${wait}`);
  const other = new Queue<string>(place.redis, "others");
  await other.configure({ backoff: ["50ms", "100ms"] });
  const others = work<string>(place, "others", (job) => {
    if (job.attempt < 3) throw new Error("not yet");
  }, { backoff: () => "3h" });
  await other.push("coffee", { id: "b" });
  await until("the third attempt works", () => others.events.includes("completed b"));
  assert.deepEqual(others.events, ["failed b", "failed b", "completed b"]);
});

withEach("the last attempt that fails is dead; so is what is discarded, or cannot be read", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const { events } = work<string>(place, "jobs", (job) => {
    throw job.payload === "hopeless" ? new Discard("no such user") : new Error("broken");
  });
  await queue.push("x", { id: "last", maxAttempts: 1 });
  await queue.push("hopeless", { id: "discarded" });
  await place.call("ZQ.PUSH", "jobs", "{not json", "ID", "unreadable");
  await until("all are dead", () => events.length === 6);
  const dead = ["discarded", "last", "unreadable"].map((id) => `dead ${id}`);
  assert.deepEqual([...events].sort(), [...dead, "discarded discarded", "discarded unreadable", "failed last"]);
  assert.equal((await queue.stats())?.dead, 3);
  assert.equal((await queue.get("discarded"))?.error, "Discard: no such user");
  const raw = new Queue<Buffer>(place.redis, "jobs", { codec: "bytes" });
  assert.match((await raw.get("unreadable"))?.error ?? "", /^PayloadError: /);
});

withEach("a job whose ID is not UTF-8 is a job like any other", async (place) => {
  const redis = (await ioredis(place.test, place.server)) as Redis;
  for (const name of ["ok", "chains", "fails", "stops"]) {
    await redis.call("ZQ.PUSH", "jobs", JSON.stringify(name), "ID", Buffer.from(`\xff\\${name}`, "latin1"), "MAXATTEMPTS", "1");
  }
  const next = new Queue<string>(place.redis, "next");
  const { events, disconnected } = work<string>(place, "jobs", async (job) => {
    assert.equal(await job.progress("half"), true);
    assert.equal(await job.lastProgress(), "half");
    if (job.payload === "fails") throw new Error("no luck");
    if (job.payload === "stops") throw new Discard("never");
    const { deadlineMs } = job;
    await until("a heartbeat has extended the lease", () => job.deadlineMs > deadlineMs);
    if (job.payload === "chains") job.chain(next.calls.push("y", { id: `${job.id}:next` }));
  }, { lease: "3s" });
  await until("all are done", () => events.length === 6);
  const ended = ["completed chains", "completed ok", "dead fails", "dead stops", "discarded stops", "failed fails"];
  assert.deepEqual([...events].sort(), ended.map((event) => event.replace(" ", " \\xff\\x5c")));
  const stats = await new Queue(place.redis, "jobs").stats();
  assert.deepEqual([stats?.["acked"], stats?.dead, stats?.["expiredLeases"]], [2, 2, 0]);
  assert.equal((await next.get("\\xff\\x5cchains:next"))?.payload, "y");
  assert.deepEqual(disconnected, []);
});

withEach("a job asks to be run again, with or without counting the attempt", async (place) => {
  const queue = new Queue<boolean>(place.redis, "jobs");
  const attempts: number[] = [];
  const { events } = work<boolean>(place, "jobs", (job) => {
    attempts.push(job.attempt);
    if (attempts.length < 3) throw new Retry({ after: { ms: 10 }, free: job.payload, reason: "429" });
  });
  await queue.push(true, { id: "free", maxAttempts: 1 });
  await until("it is done", () => events.length === 3);
  assert.deepEqual(events, ["retried free", "retried free", "completed free"]);
  assert.deepEqual(attempts, [1, 1, 1], "free attempts do not count");
  attempts.length = 0;
  await queue.push(false, { id: "counted" });
  await until("it is done", () => events.length === 6);
  assert.deepEqual(attempts, [1, 2, 3]);
});

withEach("a 429 of one customer rests its other jobs, and nobody else's", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  for (const id of ["a1", "a2", "b1", "b2"]) await queue.push(id, { id, group: id.slice(0, 1) });
  const ran: string[] = [];
  const { events } = work<string>(
    place,
    "jobs",
    (job) => {
      ran.push(job.id);
      if (job.payload === "a1") throw new Retry({ after: "1h", free: true, hold: true, reason: "429" });
    },
    { concurrency: 1 },
  );
  await until("the others are done", () => events.length === 3);
  assert.deepEqual(ran, ["a1", "b1", "b2"]);
  const [held] = await queue.groups();
  assert.deepEqual([held?.name, held?.ready, held?.delayed, typeof held?.heldUntilMs], ["a", 1, 1, "number"]);
  assert.throws(() => new Retry({ hold: true }), TypeError);
});

withEach("several queues: the first that has a job is served", async (place) => {
  const order: string[] = [];
  await new Queue(place.redis, "later").push(1, { id: "l" });
  await new Queue(place.redis, "urgent").push(1, { id: "u" });
  const { events } = work(place, ["urgent", "later"], (job) => order.push(job.queue), { concurrency: 1 });
  await until("both are done", () => events.length === 2);
  assert.deepEqual(order, ["urgent", "later"]);
});

withEach("heartbeats hold a job for longer than its lease", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const deadlines: number[] = [];
  const { events } = work(place, "jobs", async (job) => {
    deadlines.push(job.deadlineMs);
    await sleep(2500);
    deadlines.push(job.deadlineMs);
  }, { lease: "1s" });
  await queue.push(1, { id: "long" });
  await until("it runs", async () => (await queue.stats())?.claimed === 1);
  work(place, "jobs", () => assert.fail("another worker got it"), { lease: "1s" });
  await until("it is done", () => events.length > 0);
  assert.deepEqual(events, ["completed long"]);
  const [claimedUntilMs = 0, extendedUntilMs = 0] = deadlines;
  assert.ok(extendedUntilMs > claimedUntilMs, "heartbeats update the job's deadline");
  assert.equal((await queue.stats())?.["expiredLeases"], 0);
});

withEach("a lease that is lost cancels the handler, and another worker's job is not acknowledged", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const cancelled = deferred<Error>();
  const goOn = deferred();
  const late = work(place, "jobs", async (job) => {
    job.signal.addEventListener("abort", () => cancelled.resolve(job.signal.reason as Error));
    await goOn.promise;
  }, { lease: "600ms" });
  await queue.push("mine", { id: "a" });
  await until("it is claimed", async () => (await queue.stats())?.claimed === 1);
  // Another client replaces the job, so the token of the worker is stale.
  await queue.push("replaced", { id: "a", replace: true, delay: "1h" });
  assert.equal((await cancelled.promise).name, "LeaseLost");
  goOn.resolve();
  await late.worker.stop();
  assert.deepEqual(late.events, ["lost a"]);
  assert.equal((await queue.get("a"))?.payload, "replaced");
});

withEach("a handler that is cancelled and fails tells the server nothing", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const { events } = work(place, "jobs", (job) => sleep(60_000, undefined, { signal: job.signal }), { lease: "600ms" });
  await queue.push(1, { id: "a" });
  await until("it is claimed", async () => (await queue.stats())?.claimed === 1);
  await queue.push(1, { id: "a", replace: true, delay: "1h" });
  await until("it is lost", () => events.length === 1);
  assert.deepEqual(events, ["lost a"]);
  assert.equal((await queue.stats())?.["nacked"], 0);
});

withEach("a worker that stops waits for its handlers, and gives the others back free", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const ready = deferred();
  let begun = 0;
  const { worker, events, run } = work<string>(place, "jobs", (job) => {
    begun += 1;
    return job.payload === "short" ? ready.promise : sleep(60_000, undefined, { signal: job.signal });
  });
  await queue.push("short", { id: "short" });
  await queue.push("long", { id: "long" });
  await until("both run", () => begun === 2);
  const stopped = worker.stop({ grace: "500ms" });
  assert.equal(worker.state, "stopping");
  await queue.push("late", { id: "late" });
  ready.resolve();
  await stopped;
  await run;
  // The waiting claim may have got the job `late`. The worker then gave it back, too.
  assert.deepEqual(events.filter((event) => !event.endsWith("late")), ["completed short", "released long"]);
  assert.deepEqual((await queue.peek("ready")).map((job) => job.id).sort(), ["late", "long"]);
  assert.equal((await queue.get("long"))?.attempts, 0, "the attempt did not count");
});

withEach("a worker that stops acknowledges what is done", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  let begun = 0;
  const { worker, events } = work(place, "jobs", async (job) => {
    begun += 1;
    job.done();
    await sleep(60_000, undefined, { signal: job.signal });
  });
  await queue.push(1, { id: "a" });
  await until("it runs", () => begun === 1);
  await worker.stop({ grace: 0 });
  assert.deepEqual(events, ["completed a"]);
  assert.equal((await queue.stats())?.["acked"], 1);
});

withEach("an idle worker stops at once, although it waits for a job", async (place) => {
  const { worker } = work(place, "jobs", () => undefined);
  await until("it waits", async () => /zeitset_clients_waiting:1/.test(String(await place.call("INFO", "zeitset"))));
  const start = performance.now();
  await worker.stop();
  assert.ok(performance.now() - start < 4000, "it did not sit its wait out");
});

withEach("another command goes with the ACK, in one MULTI", async (place) => {
  const first = new Queue<string>(place.redis, "first");
  const second = new Queue<string>(place.redis, "second");
  const { events } = work<string>(place, "first", (job) => {
    job.chain(second.calls.push(`after ${job.payload}`, { id: `${job.id}:next` }));
    job.chain({ key: "done", words: ["INCR", "done"] });
  });
  await first.push("cook", { id: "c" });
  await until("it is done", () => events.length === 1);
  assert.equal((await second.get("c:next"))?.payload, "after cook");
  assert.equal(await place.call("GET", "done"), "1");
});

withEach("a chained command that the server refuses is a failure of the job; one that fails is not", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  await place.call("SET", "text", "x");
  const { events, worker } = work<string>(place, "jobs", (job) => {
    if (job.attempt === 1) job.chain({ key: "jobs", words: job.payload === "refused" ? ["INCR"] : ["LPUSH", "text", "1"] });
  }, { backoff: () => "1ms" });
  const errors: string[] = [];
  worker.on("completed", ({ job, error }) => error && errors.push(`${job.id}: ${error.message}`));
  await queue.push("refused", { id: "r" });
  await until("its second attempt is done", () => events.length === 2);
  assert.deepEqual(events, ["failed r", "completed r"]);
  await queue.push("fails", { id: "f" });
  await until("it is done", () => events.length === 3);
  assert.deepEqual(errors, ["f: WRONGTYPE Operation against a key holding the wrong kind of value"]);
  assert.equal((await queue.stats())?.claimed, 0);
});

withEach("an error that does not pass stops the worker, which throws it", async (place) => {
  await place.call("SET", "jobs", "a string");
  const { run, worker } = work(place, "jobs", () => undefined);
  await assert.rejects(run, /WRONGTYPE/);
  assert.equal(worker.state, "stopped");
});

test("what makes no worker is refused", () => {
  const client = { sendCommand: async () => null, duplicate: () => null, multi: () => null };
  assert.throws(() => new Worker(client, [], () => undefined), TypeError);
  assert.throws(() => new Worker(client, "jobs", () => undefined, { concurrency: 0 }), RangeError);
  assert.throws(() => new Worker({} as never, "jobs", () => undefined), TypeError);
});

const UNRUN: Record<string, () => unknown> = {
  "a Generator": function* () {
    yield 1;
  },
  "an AsyncGenerator": async function* () {
    yield 1;
  },
  "a function": () => async () => undefined,
};

withEach("a handler that returns what nobody runs fails its job", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  for (const [what, handler] of Object.entries(UNRUN)) {
    await queue.push(1, { id: what, maxAttempts: 1 });
    const { worker, events } = work(place, "jobs", handler);
    await until("it is dead", () => events.length === 2);
    assert.deepEqual(events, [`failed ${what}`, `dead ${what}`]);
    assert.match(String((await queue.get(what))?.error), new RegExp(`returned ${what}, .* async \\(job\\) =>`));
    await worker.stop();
  }
});

withEach("whatever a handler throws is a failure of the job", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const all = thrown();
  const { events } = work<string>(place, "jobs", (job) => {
    throw all.get(job.payload);
  }, { backoff: () => "1h" });
  await queue.pushMany([...all.keys()].map((payload) => ({ payload, id: payload })));
  await until("all have failed", () => events.length === all.size);
  assert.deepEqual([...events].sort(), [...all.keys()].map((id) => `failed ${id}`).sort());
  assert.equal((await queue.get("value 4"))?.error, "Error: text");
  assert.equal((await queue.get("a proxy"))?.attempts, 1);
});

withEach("a backoff that fails leaves the job its failure", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const warned = once(process, "warning") as Promise<[Error]>;
  const { events } = work(place, "jobs", () => assert.fail("no"), { backoff: () => NaN });
  await queue.push(1, { id: "a" });
  await until("it has failed", () => events.length === 1);
  assert.match((await warned)[0].message, /backoff/);
  assert.deepEqual(events, ["failed a"]);
});

withEach("the last attempt that fails says so", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  const { events } = work<number>(place, "jobs", (job) => {
    throw job.payload === 3 ? new Discard("never") : new Error("no");
  }, { backoff: () => "1ms" });
  await queue.push(1, { id: "a", maxAttempts: 1 });
  await until("it is dead", () => events.length === 2);
  await queue.push(2, { id: "b", maxAttempts: 2 });
  await until("it is dead", () => events.length === 5);
  await queue.push(3, { id: "c" });
  await until("it is dead", () => events.length === 7);
  assert.deepEqual(events, ["failed a", "dead a", "failed b", "failed b", "dead b", "discarded c", "dead c"]);
});

withEach("a job that runs longer than its timeout has failed", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const reasons: string[] = [];
  const { events } = work<string>(place, "jobs", async (job) => {
    if (job.attempt > 1) return;
    job.signal.addEventListener("abort", () => reasons.push((job.signal.reason as Error).name));
    await sleep(60_000, undefined, { signal: job.signal });
  }, { timeout: (job) => (job.payload === "short" ? "100ms" : "1h"), backoff: () => "1ms" });
  await queue.push("short", { id: "a" });
  await queue.push("long", { id: "b" });
  await until("it is done", () => events.includes("completed a"));
  assert.deepEqual(events, ["failed a", "completed a"]);
  assert.deepEqual(reasons, ["TimeoutError"]);
  const other = work<string>(place, "others", () => new Promise(() => undefined), { timeout: "100ms", backoff: () => "1h" });
  await new Queue(place.redis, "others").push(1, { id: "c" });
  await until("it has failed, though its handler never returns", () => other.events.length === 1);
  assert.equal((await new Queue(place.redis, "others").get("c"))?.error, "TimeoutError: ran longer than 100ms");
});

withEach("the timeout of a push comes before that of the worker", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const seen: unknown[] = [];
  const handler = async (job: Job<string>): Promise<void> => {
    seen.push([job.id, job.timeoutMs]);
    await sleep(job.id === "short" ? 60_000 : 300, undefined, { signal: job.signal });
  };
  await queue.push("x", { id: "short", timeout: "20ms", maxAttempts: 1 });
  const { events, worker } = work<string>(place, "jobs", handler, { timeout: "1h" });
  await until("it is dead", () => events.length === 2);
  await worker.stop();
  await queue.push("x", { id: "long", timeout: "1h" });
  await queue.push("x", { id: "longest", timeout: "60d" });
  await queue.push("x", { id: "worker's", maxAttempts: 1 });
  const other = work<string>(place, "jobs", handler, { timeout: "20ms", concurrency: 1 });
  await until("all have ended", () => other.events.length === 4);
  assert.deepEqual(events, ["failed short", "dead short"]);
  assert.deepEqual(other.events, ["completed long", "completed longest", "failed worker's", "dead worker's"]);
  assert.deepEqual(seen, [["short", 20], ["long", 3_600_000], ["longest", 5_184_000_000], ["worker's", undefined]]);
});

withEach("a job whose timeout cannot be read is a dead letter", async (place) => {
  await place.call("ZQ.PUSH", "jobs", 'timeout: soon\n"x"', "ID", "a");
  const { events } = work(place, "jobs", () => assert.fail("it cannot be read"));
  await until("it is dead", () => events.length === 2);
  assert.deepEqual(events, ["discarded a", "dead a"]);
  assert.match((await new Queue(place.redis, "jobs").get("a"))?.error ?? "", /expected a duration .* not 'soon'/);
});

withEach("a handler for each queue", async (place) => {
  const seen: string[] = [];
  const take = (name: string) => (job: { id: string }) => void seen.push(`${name} ${job.id}`);
  const worker = new Worker(place.redis, { mails: take("f"), reports: take("g") }, { signals: false });
  await new Queue(place.redis, "reports").push(1, { id: "r" });
  await new Queue(place.redis, "mails").push(1, { id: "m" });
  await worker.run({ burst: true });
  assert.deepEqual(seen, ["f m", "g r"]);
});

withEach("a burst ends when nothing is ready, with all that came meanwhile", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  await queue.pushMany(Array.from({ length: 30 }, (_, payload) => ({ payload })));
  await queue.push(99, { delay: "1h" });
  let runs = 0;
  const hooks: string[] = [];
  const worker = new Worker<number>(place.redis, "jobs", async (job) => {
    runs += 1;
    await sleep(5);
    if (job.payload === 7) await queue.push(100);
  }, { concurrency: 3, onStart: async () => void hooks.push(`start ${runs}`), onStop: () => void hooks.push(`stop ${runs}`) });
  await worker.run({ burst: true });
  assert.equal(runs, 31);
  assert.deepEqual(hooks, ["start 0", "stop 31"]);
  const stats = await queue.stats();
  assert.ok(stats);
  assert.deepEqual([stats.ready, stats.claimed, stats.delayed], [0, 0, 1]);
});

withEach("a start that fails is thrown, and nothing is claimed", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  await queue.push(1);
  const worker = new Worker(place.redis, "jobs", () => undefined, {
    onStart: () => {
      throw new Error("no database");
    },
    onStop: () => assert.fail("it has not started"),
  });
  await assert.rejects(worker.run(), /no database/);
  await worker.stop();
  assert.equal(worker.state, "stopped");
  assert.equal((await queue.stats())?.ready, 1);
});

withEach("stop before run and after the end does nothing", async (place) => {
  await new Queue(place.redis, "jobs").push(1);
  const worker = new Worker(place.redis, "jobs", () => assert.fail("it was stopped"), { signals: false });
  await worker.stop();
  await worker.run();
  await worker.stop();
  const other = new Worker(place.redis, "others", () => undefined, { signals: false });
  await other.run({ burst: true });
  await other.stop();
  assert.equal(other.state, "stopped");
});

withEach("weights share the worker, and starve nobody", async (place) => {
  const weights = { high: 6, middle: 3, low: 1 };
  for (const [name] of Object.entries(weights)) {
    await new Queue<string>(place.redis, name).pushMany(Array.from({ length: 400 }, () => ({ payload: name })));
  }
  for (const concurrency of [1, 7]) {
    const order: string[] = [];
    const { worker } = work<string>(place, Object.keys(weights), (job) => void order.push(job.payload), { weights, concurrency });
    await until("half are done", () => order.length >= 300);
    await worker.stop();
    // A claim takes at most seven jobs.
    for (const [name, weight] of Object.entries(weights)) {
      const count = order.slice(0, 300).filter((each) => each === name).length;
      assert.ok(Math.abs(count - 30 * weight) <= 2 * concurrency + 2, `${name}: ${count}`);
    }
    assert.ok(order.slice(0, 20 * concurrency).includes("low"));
  }
});

withEach("weights name each queue", async ({ redis }) => {
  for (const weights of [{}, { a: 1 }, { a: 1, b: 0 }, { a: 1, b: NaN }, { a: 1, b: 1, c: 1 }]) {
    assert.throws(() => new Worker(redis, ["a", "b"], () => undefined, { weights: weights as Record<string, number> }), RangeError);
  }
});
