import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Discard, Queue, Retry, Worker } from "zeitset";
import { withEach } from "./support/clients.js";
import { deferred, until } from "./support/until.js";
import { work } from "./support/work.js";

withEach("jobs are handled, acknowledged, and gone", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  const seen: number[] = [];
  const { events, worker } = work<number>(place, "jobs", (job) => {
    assert.equal(job.attempt, 1);
    assert.ok(job.token > 1e15 && Number.isSafeInteger(job.token), `${job.token}`);
    seen.push(job.payload);
  });
  // Some while it waits, many at once, and one that falls due later.
  await until("it runs", () => worker.state === "running");
  await queue.push(0);
  await queue.pushMany(Array.from({ length: 99 }, (_, n) => ({ payload: n + 1 })));
  await queue.push(100, { delay: 200 });
  await until("all are done", () => events.length === 101);
  assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 101 }, (_, n) => n));
  const stats = await queue.stats();
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
  assert.equal((await queue.stats()).claimed, 3);
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
  await other.configure({ backoff: [50, 100] });
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
  await queue.push("x", { id: "last", attempts: 1 });
  await queue.push("hopeless", { id: "discarded" });
  await place.call("ZQ.PUSH", "jobs", "{not json", "ID", "unreadable");
  await until("all are dead", () => events.length === 3);
  assert.deepEqual([...events].sort(), ["discarded discarded", "discarded unreadable", "failed last"]);
  assert.equal((await queue.stats()).dead, 3);
  assert.equal((await queue.get("discarded"))?.error, "Discard: no such user");
  const raw = new Queue<Buffer>(place.redis, "jobs", { codec: "bytes" });
  assert.match((await raw.get("unreadable"))?.error ?? "", /^PayloadError: /);
});

withEach("a job asks to be run again, with or without counting the attempt", async (place) => {
  const queue = new Queue<boolean>(place.redis, "jobs");
  const attempts: number[] = [];
  const { events } = work<boolean>(place, "jobs", (job) => {
    attempts.push(job.attempt);
    if (attempts.length < 3) throw new Retry({ after: 10, free: job.payload, reason: "429" });
  });
  await queue.push(true, { id: "free", attempts: 1 });
  await until("it is done", () => events.length === 3);
  assert.deepEqual(events, ["retried free", "retried free", "completed free"]);
  assert.deepEqual(attempts, [1, 1, 1], "free attempts do not count");
  attempts.length = 0;
  await queue.push(false, { id: "counted" });
  await until("it is done", () => events.length === 6);
  assert.deepEqual(attempts, [1, 2, 3]);
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
  const { events } = work(place, "jobs", () => sleep(2500), { lease: "1s" });
  work(place, "jobs", () => assert.fail("another worker got it"), { lease: "1s" });
  await queue.push(1, { id: "long" });
  await until("it is done", () => events.length > 0);
  assert.deepEqual(events, ["completed long"]);
  assert.equal((await queue.stats())["expiredLeases"], 0);
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
  await until("it is claimed", async () => (await queue.stats()).claimed === 1);
  // The job is replaced under the worker: its token is stale.
  await queue.push("replaced", { id: "a", replace: true, delay: "1h" });
  assert.equal((await cancelled.promise).name, "LeaseLost");
  goOn.resolve();
  await until("the handler is back", () => late.events.length === 2);
  assert.deepEqual(late.events, ["lost a", "stale a"]);
  assert.equal((await queue.get("a"))?.payload, "replaced");
});

withEach("a handler that is cancelled and fails tells the server nothing", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const { events } = work(place, "jobs", (job) => sleep(60_000, undefined, { signal: job.signal }), { lease: "600ms" });
  await queue.push(1, { id: "a" });
  await until("it is claimed", async () => (await queue.stats()).claimed === 1);
  await queue.push(1, { id: "a", replace: true, delay: "1h" });
  await until("it is lost", () => events.length === 1);
  assert.deepEqual(events, ["lost a"]);
  assert.equal((await queue.stats())["nacked"], 0);
});

withEach("a worker that stops waits for its handlers, and gives the others back free", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const ready = deferred();
  const { worker, events, run } = work<string>(place, "jobs", (job) =>
    job.payload === "short" ? ready.promise : sleep(60_000, undefined, { signal: job.signal }),
  );
  await queue.push("short", { id: "short" });
  await queue.push("long", { id: "long" });
  await until("both run", async () => (await queue.stats()).claimed === 2);
  const stopped = worker.stop({ grace: 500 });
  assert.equal(worker.state, "stopping");
  await queue.push("late", { id: "late" });
  ready.resolve();
  await stopped;
  await run;
  // The job that came meanwhile may have been given to the claim that waited: it was given back, too.
  assert.deepEqual(events.filter((event) => !event.endsWith("late")), ["completed short", "released long"]);
  assert.deepEqual((await queue.peek("ready")).map((job) => job.id).sort(), ["late", "long"]);
  assert.equal((await queue.get("long"))?.attempts, 0, "the attempt did not count");
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
  }, { backoff: () => 1 });
  const errors: string[] = [];
  worker.on("completed", ({ job, error }) => error && errors.push(`${job.id}: ${error.message}`));
  await queue.push("refused", { id: "r" });
  await until("its second attempt is done", () => events.length === 2);
  assert.deepEqual(events, ["failed r", "completed r"]);
  await queue.push("fails", { id: "f" });
  await until("it is done", () => events.length === 3);
  assert.deepEqual(errors, ["f: WRONGTYPE Operation against a key holding the wrong kind of value"]);
  assert.equal((await queue.stats()).claimed, 0);
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
