import assert from "node:assert/strict";
import { test } from "node:test";
import { PayloadError, Queue, queues } from "zeitset";
import { withEach } from "./support/clients.js";

interface Mail {
  readonly to: string;
}

withEach("jobs are pushed, shown, moved and cancelled", async ({ redis }) => {
  const mails = new Queue<Mail>(redis, "mails");
  const id = await mails.push({ to: "ann" });
  assert.match(id ?? "", /^[\w-]{16}$/, "a random id");
  assert.equal(await mails.push({ to: "bob" }, { id: "bob", delay: "2h", priority: -5, attempts: 3 }), "bob");
  assert.equal(await mails.push({ to: "bob" }, { id: "bob" }), null, "it is there");
  assert.equal(await mails.push({ to: "eve" }, { id: "bob", at: new Date("2100-01-01T00:00:00Z"), replace: true }), "bob");
  const bob = await mails.get("bob");
  assert.deepEqual(bob?.payload, { to: "eve" });
  assert.equal(bob?.state, "delayed");
  assert.equal(bob?.dueMs, 4_102_444_800_000);
  assert.equal(bob?.error, null);
  assert.deepEqual(await mails.peek(), [{ id, dueMs: (await mails.get(id ?? ""))?.dueMs, priority: 0, attempts: 0, payload: { to: "ann" } }]);
  assert.equal(await mails.reschedule("bob", { delay: 0, priority: -1 }), true);
  assert.deepEqual((await mails.peek()).map((job) => job.id), ["bob", id]);
  assert.equal(await mails.cancel("bob", "nobody"), 1);
  assert.equal(await mails.get("bob"), null);
  assert.equal(await mails.reschedule("bob", { delay: 1 }), false);
});

withEach("many jobs are pushed together", async ({ redis }) => {
  const mails = new Queue<number>(redis, "mails");
  const ids = await mails.pushMany([{ payload: 1, id: "one" }, { payload: 2 }, { payload: 3, id: "one" }]);
  assert.equal(ids[0], "one");
  assert.equal(ids[1]?.length, 16);
  assert.equal(ids[2], null);
  const stats = await mails.stats();
  assert.equal(stats.ready, 2);
  assert.equal(stats["pushed"], 2);
});

withEach("payloads are JSON without blanks, or bytes", async ({ redis, call }) => {
  await new Queue(redis, "json").push({ "ä": [1, null, "x"] }, { id: "j" });
  assert.equal((((await call("ZQ.PEEK", "json")) as unknown[][])[0] ?? [])[4], '{"ä":[1,null,"x"]}');
  const raw = Buffer.from([0, 255, 13, 10, 128]);
  const bytes = new Queue<Uint8Array>(redis, "bytes", { codec: "bytes" });
  await bytes.push(raw, { id: "b" });
  assert.deepEqual((await bytes.get("b"))?.payload, raw);
  assert.deepEqual((await bytes.peek())[0]?.payload, raw);
  await assert.rejects(new Queue(redis, "bytes").get("b"), PayloadError);
  await assert.rejects(new Queue(redis, "json").push(undefined), TypeError);
  await assert.rejects(bytes.push("text" as unknown as Buffer), TypeError);
});

withEach("a queue is configured, paused, cleaned and redriven", async ({ redis, call }) => {
  const jobs = new Queue<number>(redis, "jobs");
  await jobs.configure({ attempts: 1, backoff: ["1s", "1h"], maxlen: 2, rate: [100, "1s"], jitter: 10, deadttl: "7d" });
  const stats = await jobs.stats();
  assert.equal(stats["attempts"], 1);
  assert.equal(stats["backoffMaxMs"], 3_600_000);
  await jobs.push(1, { id: "a" });
  await jobs.push(2, { id: "b" });
  await assert.rejects(jobs.push(3), /QUEUEFULL/);
  await jobs.pause();
  assert.deepEqual(await call("ZQ.CLAIM", "1", "jobs", "LEASE", "10s"), []);
  await jobs.resume();
  const claimed = (await call("ZQ.CLAIM", "1", "jobs", "LEASE", "10s")) as [string, string, number][];
  await call("ZQ.NACK", "jobs", "a", String(claimed[0]?.[2]), "DEAD");
  assert.equal((await jobs.peek("dead"))[0]?.id, "a");
  assert.equal(await jobs.redrive({ ids: ["a"] }), 1);
  assert.equal(await jobs.clean("ready", { count: 1 }), 1);
  assert.equal((await jobs.stats()).ready, 1);
});

withEach("queues and groups are listed", async ({ redis }) => {
  await new Queue(redis, "a").push(1, { group: "ann" });
  await new Queue(redis, "b").push(1);
  assert.deepEqual(await queues(redis), ["a", "b"]);
  assert.deepEqual(await queues(redis, { after: "a", count: 10 }), ["b"]);
  assert.deepEqual(await new Queue(redis, "a").groups(), [{ name: "ann", ready: 1, delayed: 0, claimed: 0 }]);
});

test("a job is due in so long or at a time, not both", async () => {
  const jobs = new Queue({ sendCommand: async () => null, duplicate: () => null, multi: () => null }, "jobs");
  await assert.rejects(jobs.push(1, { delay: 5, at: new Date() }), TypeError);
  await assert.rejects(jobs.push(1, { delay: -5 }), RangeError);
  await assert.rejects(jobs.push(1, { at: new Date("never") }), RangeError);
  await assert.rejects(jobs.push(1, { priority: 1.5 }), RangeError);
});
