import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { Check, checkAll, CostTooHigh, type Duration, Limiter, Queue, Worker } from "zeitset";
import { until } from "./support/until.js";
import { withEach } from "./support/clients.js";

withEach("a limit lets its units through, and says when the next one may come", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "search", "3/minute");
  for (const remaining of [2, 1, 0]) {
    const check = await limiter.check("ann");
    assert.equal(check.allowed, true);
    assert.equal(check.remaining, remaining);
    assert.equal(check.retryAfterMs, 0);
    assert.ok(check.chargedUntilMs > Date.now());
  }
  const denied = await limiter.check("ann");
  assert.equal(denied.allowed, false);
  assert.ok(denied.retryAfterMs > 0 && denied.retryAfterMs <= 60_000);
  assert.equal(denied.chargedUntilMs, 0);
  assert.equal((await limiter.check("bob")).allowed, true, "another key, another limit");
  assert.equal(await call("EXISTS", "search:ann"), 1, "the key that the contract names");
});

withEach("a client that waits for retryAfterMs is allowed", async ({ redis }) => {
  const limiter = new Limiter(redis, "knock", "1/200ms");
  await limiter.check("ann");
  const denied = await limiter.check("ann");
  if (denied.allowed) return; // busy machine: the window has passed
  await sleep(denied.retryAfterMs);
  assert.equal((await limiter.check("ann")).allowed, true);
});

withEach("units are given back, peeked at, taken by force, and forgotten", async ({ redis }) => {
  const limiter = new Limiter(redis, "tokens", "1000/1h");
  const check = await limiter.check("ann", { cost: 600 });
  assert.equal(await limiter.refund("ann", 200, check), 200);
  assert.equal((await limiter.peek("ann")).remaining, 600);
  assert.equal((await limiter.peek("ann", { cost: 601 })).allowed, false);
  const forced = await limiter.check("ann", { cost: 5000, force: true });
  assert.deepEqual([forced.allowed, forced.remaining, forced.debt, forced.retryAfterMs], [true, 0, 4400, 0]);
  assert.ok(forced.chargedUntilMs > 0);
  const denied = await limiter.check("ann");
  assert.deepEqual([denied.allowed, denied.remaining, denied.debt], [false, 0, 4400]);
  assert.equal(await limiter.reset("ann"), true);
  assert.equal((await limiter.peek("ann")).remaining, 1000);
  assert.equal(await limiter.refund("ann", 1, await limiter.peek("ann")), 0, "a peek has taken nothing");
});

withEach("all algorithms keep their own key", async ({ redis, call }) => {
  for (const algorithm of ["sliding", "fixed", "leaky"] as const) {
    const limiter = new Limiter(redis, algorithm, "10/2 hours", { algorithm });
    assert.equal((await limiter.check("ann", { cost: 10 })).allowed, true);
    assert.equal((await limiter.check("ann")).allowed, false);
    assert.equal(await call("TYPE", `${algorithm}:ann`), "string");
  }
  const exact = new Limiter(redis, "exact", "1000/1h", { precision: "exact" });
  assert.equal((await exact.check("ann")).allowed, true);
});

withEach("several limits are taken from together, or not at all", async ({ redis }) => {
  const minute = new Limiter(redis, "minute", "2/1m");
  const day = new Limiter(redis, "day", "10/1d", { algorithm: "leaky" });
  const ask = () => checkAll([minute, "ann"], [day, "ann", 3]);
  assert.equal((await ask()).allowed, true);
  assert.equal((await ask()).allowed, true);
  const denied = await ask();
  assert.equal(denied.allowed, false);
  assert.deepEqual(denied.checks.map((check) => check.allowed), [false, true]);
  assert.ok(denied.retryAfterMs > 0 && denied.retryAfterMs <= 60_000);
  assert.equal(denied.checks[1]?.remaining, 4, "nothing was taken from the day");
  const exact = new Limiter(redis, "exact", "2/1m", { precision: "exact" });
  assert.equal((await checkAll([exact, "ann"], [day, "ann"])).allowed, true, "precision is an option of SLIDING limits only");
  await assert.rejects(checkAll([minute, "ann"], [exact, "ann"]), /all SLIDING limits of one call must have the same precision/);
});

withEach("headers tell of one limit and of several", async ({ redis }) => {
  const minute = new Limiter(redis, "minute", "2/1m");
  const day = new Limiter(redis, "day", "10/1d");
  const check = await minute.check("ann");
  assert.deepEqual(check.headers(), { "RateLimit-Policy": '"minute";q=2;w=60', RateLimit: '"minute";r=1;t=60' });
  await minute.check("ann");
  const denied = await checkAll([minute, "ann"], [day, "ann"]);
  const headers = denied.headers();
  assert.equal(headers["RateLimit-Policy"], '"minute";q=2;w=60, "day";q=10;w=86400');
  const wait = Number(headers["Retry-After"]);
  assert.ok(wait >= 1 && wait <= 60, JSON.stringify(headers));
  assert.equal(headers["RateLimit"], `"minute";r=0;t=${wait}, "day";r=10;t=86400`);
});

test("header fields are what the draft asks", () => {
  const of = { name: "a \"b\"", limit: 10, windowMs: 60_000, unit: "content-bytes" };
  const fields = { allowed: true, limit: 10, chargedUntilMs: 0, retryAfterMs: 0, resetAfterMs: 1 };
  const rate = (changes: object): string | undefined => new Check({ ...fields, remaining: 5, ...changes }, of).headers()["RateLimit"];
  // In t seconds, the remaining units are used no faster than by the policy's rate.
  assert.equal(rate({}), '"a \\"b\\"";r=5;t=30');
  assert.equal(rate({ resetAfterMs: 45_001 }), '"a \\"b\\"";r=5;t=46');
  // `w` is in whole seconds, rounded up, so `t` counts the seconds that the policy shows.
  const short = new Check({ ...fields, limit: 3, remaining: 2, resetAfterMs: 900 }, { ...of, limit: 3, windowMs: 1500 });
  assert.match(short.headers()["RateLimit"] ?? "", /;r=2;t=2$/);
  const denied = new Check({ ...fields, allowed: false, remaining: 5, retryAfterMs: 1 }, of).headers();
  assert.equal(denied["Retry-After"], "30", "not before the effective window ends");
  assert.equal(denied["RateLimit-Policy"], '"a \\"b\\"";q=10;w=60;qu="content-bytes"');
  const huge = new Check({ ...fields, remaining: Number.MAX_SAFE_INTEGER }, { ...of, limit: Number.MAX_SAFE_INTEGER }).headers();
  assert.match(huge["RateLimit"] ?? "", /;r=999999999999999;/, "integers have at most 15 digits");
  assert.match(huge["RateLimit-Policy"] ?? "", /;q=999999999999999;/);
});

withEach("a prefix stands before the key, and not in the headers", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "search", "5/1m", { prefix: "app:" });
  const check = await limiter.check("ann");
  assert.equal(await call("EXISTS", "app:search:ann"), 1);
  assert.match(check.headers()["RateLimit"] ?? "", /^"search";/);
  assert.equal(await limiter.reset("ann"), true);
});

test("durations are seconds, text or objects with a unit, and nothing else", () => {
  const client = { sendCommand: async () => null, duplicate: () => null, multi: () => null };
  const lease = (lease: never): unknown => new Worker(client, "jobs", () => undefined, { lease });
  const words = (delay: Duration): unknown => new Queue(client, "jobs").calls.reschedule("a", { delay }).words.at(-1);
  const good: [Duration, string][] = [
    [30, "30000ms"], [0.25, "250ms"], [0, "0ms"], [1.1, "1100ms"], ["1.1", "1100ms"], ["250ms", "250ms"], ["1.5H", "5400000ms"],
    [{ seconds: 30 }, "30000ms"], [{ ms: 0.2 }, "1ms"], [{ hours: 1, minutes: 30 }, "5400000ms"], [{ days: 7 }, "604800000ms"],
  ];
  for (const [value, ms] of good) assert.equal(words(value), ms, JSON.stringify(value));
  const bad = [NaN, Infinity, -1, 1e300, "", "-5m", "5 m", "1y", "soon", {}, { second: 1 }, { ms: -1, seconds: 5 }, { ms: NaN }, null, true, [5]];
  for (const value of bad) {
    assert.throws(() => lease(value as never), RangeError, String(value));
    assert.throws(() => words(value as never), RangeError, String(value));
  }
});

test("a keyPrefix of ioredis, which would be ignored, is refused", () => {
  const clients = [new Redis({ lazyConnect: true, keyPrefix: "app:" }), new Cluster([], { lazyConnect: true, keyPrefix: "app:" })];
  for (const client of clients) {
    assert.throws(() => new Limiter(client, "l", "5/1m"), /keyPrefix/);
    assert.throws(() => new Worker(client, "jobs", () => undefined), /keyPrefix/);
  }
});

withEach("no wait is told to a forced call", async ({ redis }) => {
  const limiter = new Limiter(redis, "tokens", "100/1m");
  const fields = (await limiter.check("ann", { cost: 150, force: true })).headers();
  assert.equal(fields["Retry-After"], undefined);
  assert.equal(fields["RateLimit"], '"tokens";r=0;t=60', "when the limit is free");
});

test("header fields have no negative numbers", () => {
  const debt = { limit: 100, remaining: -20, resetAfterMs: 60_000, chargedUntilMs: 1 };
  for (const denied of [{ allowed: false, retryAfterMs: -1 }, { allowed: true, retryAfterMs: 0 }]) {
    const check = new Check({ ...debt, ...denied }, { name: "tokens", limit: 100, windowMs: 60_000 });
    assert.deepEqual(check.headers(), { "RateLimit-Policy": '"tokens";q=100;w=60', RateLimit: '"tokens";r=0;t=60' });
  }
});

withEach("a cost above the limit is an error, and takes nothing", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "few", "5/1m");
  await assert.rejects(limiter.check("ann", { cost: 6 }), CostTooHigh);
  await assert.rejects(limiter.peek("ann", { cost: 6 }), CostTooHigh);
  await assert.rejects(checkAll([limiter, "ann", 6]), CostTooHigh);
  assert.equal(await call("EXISTS", "few:ann"), 0);
});

withEach("an invalid setting is no outage: the limiter throws, whatever onError says", async ({ redis }) => {
  for (const onError of ["allow", "deny"] as const) {
    const coarse = new Limiter(redis, "l", "5/1s", { precision: "1m", onError });
    await assert.rejects(coarse.check("ann"), /PRECISION must not exceed the window/);
    const endless = new Limiter(redis, "l", "5/9007199254740991ms", { onError });
    await assert.rejects(endless.check("ann"), /time is out of range/);
  }
});

withEach("while Redis is away, the limiter does as it was told", async ({ redis, server }) => {
  const options = { timeout: "300ms" } as const;
  const raise = new Limiter(redis, "l", "100/1h", options);
  const allow = new Limiter(redis, "l", "100/1h", { ...options, onError: "allow" });
  const deny = new Limiter(redis, "l", "100/1h", { ...options, onError: "deny" });
  await raise.check("ann");
  const away = async (): Promise<void> => {
    await assert.rejects(raise.check("ann"));
    const allowed = await allow.check("ann");
    assert.equal(allowed.allowed, true);
    assert.ok(allowed.error instanceof Error);
    assert.deepEqual(allowed.headers(), { "RateLimit-Policy": '"l";q=100;w=3600' });
    assert.equal((await deny.check("ann")).allowed, false);
    const both = await checkAll([allow, "ann"], [deny, "bob"]);
    assert.equal(both.allowed, false, "the strictest decides");
    assert.ok(both.error);
    assert.deepEqual(Object.keys(both.headers()), ["RateLimit-Policy"]);
  };
  await server.frozen(away);
  await server.kill();
  await away();
  await Promise.all(Array.from({ length: 80 }, () => allow.check("ann")));
  await server.run();
  let check = await allow.check("ann");
  await until("the client is back", async () => !(check = await allow.check("ann")).error);
  assert.ok(check.remaining > 80, `what was asked without a connection was sent later: ${check.remaining} of 100 remain`);
});

withEach("errors that do not pass are raised, whatever was said", async ({ redis, call }) => {
  await call("SET", "l:ann", "not a limit");
  const limiter = new Limiter(redis, "l", "5/1m", { onError: "allow" });
  await assert.rejects(limiter.check("ann"), /NOTLIMIT/);
});

test("rates are read, and anything else is refused", () => {
  const client = { sendCommand: async () => null, duplicate: () => null, multi: () => null };
  const windows = { "5/1m": 60_000, "5/m": 60_000, "5/minute": 60_000, "100/2 hours": 7_200_000, "5/60": 60_000, "1/1.5h": 5_400_000, "1/250ms": 250 };
  for (const [rate, windowMs] of Object.entries(windows)) assert.equal(new Limiter(client, "l", rate).windowMs, windowMs, rate);
  for (const wrong of ["5", "5/", "/1m", "0/1m", "5/0s", "x/1m", "5/1y", "5/1m/2", "-5/1m", "1.5/1m"]) {
    assert.throws(() => new Limiter(client, "l", wrong), RangeError, wrong);
  }
  assert.throws(() => new Limiter(client, "n\u00e4me", "5/1m"), RangeError);
});
