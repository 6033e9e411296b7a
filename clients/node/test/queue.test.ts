import assert from "node:assert/strict";
import { test } from "node:test";
import { PayloadError, Queue, queues, Undecodable } from "zeitset";
import { withEach } from "./support/clients.js";

interface Mail {
  readonly to: string;
}

withEach("jobs are pushed, shown, moved and cancelled", async ({ redis }) => {
  const mails = new Queue<Mail>(redis, "mails");
  const id = await mails.push({ to: "ann" });
  assert.match(id ?? "", /^[\w-]{16}$/, "a random id");
  assert.equal(await mails.push({ to: "bob" }, { id: "bob", delay: "2h", priority: -5, maxAttempts: 3 }), "bob");
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

withEach("a job is done once more after the last push", async ({ redis, call }) => {
  const index = new Queue<number>(redis, "index");
  assert.equal(await index.push(1, { id: "7", again: true }), "7");
  assert.equal(await index.push(2, { id: "7", again: true }), "7");
  const [[, , token]] = (await call("ZQ.CLAIM", "1", "index", "LEASE", "1m")) as [[string, string, number]];
  assert.equal(await index.push(3, { id: "7", again: true }), "7");
  const claimed = await index.get("7");
  assert.deepEqual([claimed?.state, claimed?.payload, claimed?.again], ["claimed", 2, 3]);
  assert.deepEqual(await index.peek(), []);
  await call("ZQ.ACK", "index", "7", String(token));
  const next = await index.get("7");
  assert.deepEqual([next?.state, next?.payload, next?.again], ["ready", 3, null]);
  await assert.rejects(async () => index.push(1, { again: true }), /needs an id/);
  await assert.rejects(async () => index.push(1, { id: "7", again: true, replace: true }), /either/);
});

withEach("a job is worth doing until its TTL is over", async ({ redis }) => {
  const prices = new Queue<string>(redis, "prices");
  await prices.push("shop", { id: "7", delay: "1h", ttl: "5m" });
  const later = await prices.get("7");
  assert.deepEqual([later?.fields["ttlMs"], later?.fields["expiresMs"]], [300_000, (later?.dueMs ?? 0) + 300_000]);
  await prices.push("shop", { id: "8", ttl: "1ms" });
  for (let tries = 0; tries < 500 && (await prices.stats())?.["expired"] === 0; tries++) await new Promise((done) => setTimeout(done, 10));
  assert.equal(await prices.get("8"), null);
  assert.deepEqual(await prices.peek(), []);
});

withEach("a header before the payload is no part of it", async ({ redis, call }) => {
  const mails = new Queue<unknown>(redis, "mails");
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await mails.push({ to: "ann" }, { traceparent, timeout: "1.5s" });
  await mails.push(null, { timeout: { minutes: 1 } });
  const rows = (await call("ZQ.PEEK", "mails")) as string[][];
  assert.deepEqual(rows.map((row) => row[4]), [`traceparent: ${traceparent}\ntimeout: 1500ms\n{"to":"ann"}`, "timeout: 60000ms\nnull"]);
  assert.deepEqual((await mails.peek()).map(({ payload }) => payload), [{ to: "ann" }, null]);
  // A later version of the library may write other header lines.
  const later = Buffer.from('for: ann \u00e9\ntimeout: 5m\n"x"', "latin1");
  await new Queue<Buffer>(redis, "mails", { codec: "bytes" }).push(later, { id: "a" });
  assert.equal((await mails.get("a"))?.payload, "x");
});

withEach("other codecs have no header", async ({ redis }) => {
  const own = { encode: (payload: Buffer) => payload, decode: (raw: Buffer) => raw };
  for (const codec of ["bytes", own] as const) {
    const queue = new Queue<Buffer>(redis, "jobs", { codec });
    for (const option of [{ timeout: 1 }, { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }]) {
      await assert.rejects(queue.push(Buffer.from("x"), option), /^TypeError: a traceparent and a timeout travel with JSON payloads only/);
    }
    await queue.push(Buffer.from("timeout: 5s\nx"), { id: "a" });
    assert.equal((await queue.get("a"))?.payload.toString(), "timeout: 5s\nx");
  }
});

withEach("an invalid timeout is not pushed", async ({ redis }) => {
  const queue = new Queue(redis, "jobs");
  for (const timeout of [0, -1, "soon", NaN]) await assert.rejects(queue.push("x", { timeout }), RangeError);
  assert.equal(await queue.stats(), null);
});

withEach("many jobs are pushed together", async ({ redis }) => {
  const mails = new Queue<number>(redis, "mails");
  const ids = await mails.pushMany([{ payload: 1, id: "one" }, { payload: 2 }, { payload: 3, id: "one" }]);
  assert.equal(ids[0], "one");
  assert.equal(ids[1]?.length, 16);
  assert.equal(ids[2], null);
  const stats = await mails.stats();
  assert.equal(stats?.ready, 2);
  assert.equal(stats?.["pushed"], 2);
  assert.equal(await new Queue(redis, "none").stats(), null);
});

withEach("payloads are JSON without blanks, or bytes", async ({ redis, call }) => {
  await new Queue(redis, "json").push({ "ä": [1, null, "x"] }, { id: "j" });
  assert.equal((((await call("ZQ.PEEK", "json")) as unknown[][])[0] ?? [])[4], '{"ä":[1,null,"x"]}');
  const raw = Buffer.from([0, 255, 13, 10, 128]);
  const bytes = new Queue<Uint8Array>(redis, "bytes", { codec: "bytes" });
  await bytes.push(raw, { id: "b" });
  assert.deepEqual((await bytes.get("b"))?.payload, raw);
  assert.deepEqual((await bytes.peek())[0]?.payload, raw);
  const unread = (await new Queue(redis, "bytes").get("b"))?.payload;
  assert.ok(unread instanceof Undecodable && unread.error instanceof PayloadError);
  assert.deepEqual(unread.raw, raw);
  for (const number of [NaN, Infinity, -Infinity]) {
    await assert.rejects(new Queue(redis, "json").push({ number: [number] }), RangeError, "JSON.stringify makes null of it");
  }
  await assert.rejects(new Queue(redis, "json").push(undefined), TypeError);
  await assert.rejects(bytes.push("text" as unknown as Buffer), TypeError);
});

withEach("a queue is configured, paused, cleaned and redriven", async ({ redis, call }) => {
  const jobs = new Queue<number>(redis, "jobs");
  await jobs.configure({ maxAttempts: 1, backoff: ["1s", "1h"], maxlen: 2, rate: [100, "1s"], jitter: 10, deadttl: "7d" });
  const stats = await jobs.stats();
  assert.equal(stats?.["maxAttempts"], 1);
  assert.equal(stats?.["backoffMaxMs"], 3_600_000);
  await jobs.configure({ groupConcurrency: 3, groupRate: [10, "1m"] });
  const ofGroups = await jobs.stats();
  assert.deepEqual([ofGroups?.["groupConcurrency"], ofGroups?.["groupRateLimit"], ofGroups?.["groupRateWindowMs"]], [3, 10, 60_000]);
  await jobs.configure({ groupConcurrency: 0, groupRate: [0, 0] });
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
  assert.equal((await jobs.stats())?.ready, 1);
});

withEach("queues and groups are listed", async ({ redis }) => {
  await new Queue(redis, "a").push(1, { group: "ann" });
  await new Queue(redis, "b").push(1);
  assert.deepEqual(await queues(redis), ["a", "b"]);
  assert.deepEqual(await queues(redis, { after: "a", count: 10 }), ["b"]);
  assert.deepEqual(await new Queue(redis, "a").groups(), [{ name: "ann", ready: 1, delayed: 0, claimed: 0, heldUntilMs: null }]);
});

withEach("the jobs of one group are shown, held and redriven", async ({ redis, call }) => {
  const calls = new Queue<string>(redis, "calls");
  for (const [id, group] of [["a", "acme"], ["b", "bloom"], ["c", "acme"]] as const) await calls.push(id, { id, group });
  assert.deepEqual((await calls.peek("ready", { group: "acme" })).map(({ id }) => id), ["a", "c"]);
  assert.deepEqual((await calls.peek("ready", { group: "acme", after: "a" })).map(({ id }) => id), ["c"]);
  assert.deepEqual(await calls.peek("ready", { group: "" }), []);
  assert.equal(await calls.hold("acme", "1h"), true);
  assert.equal(await calls.hold("nobody", "1h"), false);
  const [acme, bloom] = await calls.groups();
  assert.deepEqual((await calls.groups({ largest: true, count: 1 })).map(({ name }) => name), ["acme"]);
  await assert.rejects(calls.groups({ largest: true, after: "acme" }), TypeError);
  assert.ok((acme?.heldUntilMs ?? 0) > 1_700_000_000_000);
  assert.deepEqual(bloom, { name: "bloom", ready: 1, delayed: 0, claimed: 0, heldUntilMs: null });
  type Claims = [string, string, number][];
  const claimed = (await call("ZQ.CLAIM", "1", "calls", "LEASE", "1h", "COUNT", "9", "AS", "w1")) as Claims;
  assert.deepEqual(claimed.map(([, id]) => id), ["b"], "the jobs of acme rest");
  const [held] = await calls.peek("claimed", { lease: true });
  assert.deepEqual(held?.lease, { worker: "w1", token: claimed[0]?.[2], deadlineMs: held?.dueMs });
  assert.equal((await calls.peek("claimed"))[0]?.lease, undefined);
  assert.equal(await calls.hold("acme", 0), true);
  for (const [, id, token] of (await call("ZQ.CLAIM", "1", "calls", "LEASE", "1h", "COUNT", "9")) as Claims) {
    await call("ZQ.NACK", "calls", id, String(token), "DEAD");
  }
  assert.equal(await calls.redrive({ group: "bloom" }), 0);
  assert.equal(await calls.redrive({ ids: ["a"], group: "bloom" }), 0);
  assert.equal(await calls.redrive({ ids: ["a"], group: "acme" }), 1);
  assert.equal(await calls.clean("dead", { group: "bloom" }), 0);
  assert.equal(await calls.clean("dead", { group: "acme" }), 1);
});

test("a job is due in so long or at a time, not both", async () => {
  const jobs = new Queue({ sendCommand: async () => null, duplicate: () => null, multi: () => null }, "jobs");
  await assert.rejects(jobs.push(1, { delay: 5, at: new Date() }), TypeError);
  await assert.rejects(jobs.push(1, { delay: -5 }), RangeError);
  await assert.rejects(jobs.push(1, { at: new Date("never") }), RangeError);
  await assert.rejects(jobs.push(1, { priority: 1.5 }), RangeError);
});

withEach("a dead letter that cannot be read hides no others", async ({ redis, call }) => {
  const jobs = new Queue<number>(redis, "jobs");
  await jobs.push(1, { id: "a" });
  await call("ZQ.PUSH", "jobs", "{not json", "ID", "b");
  await call("ZQ.PUSH", "jobs", Buffer.from([34, 255, 34]) as never, "ID", "c");
  await jobs.push(4, { id: "d" });
  for (const [, id, token] of (await call("ZQ.CLAIM", "1", "jobs", "LEASE", "10s", "COUNT", "4")) as [string, string, number][]) {
    await call("ZQ.NACK", "jobs", id, String(token), "DEAD");
  }
  const shown = (await jobs.peek("dead")).map(({ id, payload }) => [id, payload instanceof Undecodable ? payload.error.name : payload]);
  assert.deepEqual(shown, [["a", 1], ["b", "PayloadError"], ["c", "PayloadError"], ["d", 4]]);
});
