import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { checkAll, Limiter } from "zeitset";
import { asked, withEach } from "./support/clients.js";
import { deferred } from "./support/until.js";

withEach("a denied key is denied without asking the server, until its wait is over", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "search", "2/1h");
  const first = [];
  for (let n = 0; n < 3; n++) first.push(await limiter.check("ann"));
  assert.deepEqual(first.map(({ allowed }) => allowed), [true, true, false]);
  assert.equal(await calls("zrl.check"), 3);
  const denied = await Promise.all(Array.from({ length: 500 }, () => limiter.check("ann")));
  assert.ok(denied.every(({ allowed }) => !allowed));
  assert.equal(await calls("zrl.check"), 0);
  const last = denied.at(-1);
  assert.ok(last && last.retryAfterMs > 3_500_000 && last.retryAfterMs <= (first[2]?.retryAfterMs ?? 0));
  assert.equal(last.headers()["Retry-After"], "3600");
  assert.equal((await limiter.check("ann", { cost: 2 })).allowed, false, "what costs more is denied, too");
  assert.equal(await calls("zrl.check"), 0);
  assert.equal((await limiter.check("bob")).allowed, true);
  await limiter.peek("ann");
  assert.equal(await calls("zrl.check", "zrl.peek"), 2, "another key and a peek ask");
});

withEach("a denial is remembered for no longer than the server said", async (place) => {
  const limiter = new Limiter(place.redis, "knock", "1/300ms");
  for (let round = 0; round < 3; round++) {
    await limiter.check("ann");
    const denied = await limiter.check("ann");
    if (denied.allowed) continue; // busy machine: the window has passed
    const again = await limiter.check("ann");
    if (!again.allowed) await sleep(again.retryAfterMs + 1);
    assert.equal((await limiter.check("ann")).allowed, true);
    await sleep(300);
  }
});

withEach("what costs less than what was denied is asked for", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "tokens", "100/1h");
  await limiter.check("ann", { cost: 90 });
  assert.equal((await limiter.check("ann", { cost: 20 })).allowed, false);
  assert.equal((await limiter.check("ann", { cost: 10 })).allowed, true);
  assert.equal(await calls("zrl.check"), 3);
});

withEach("a refund and a reset of the same limiter forget the denial", async ({ redis }) => {
  const limiter = new Limiter(redis, "tokens", "1/1h");
  const check = await limiter.check("ann");
  assert.equal((await limiter.check("ann")).allowed, false);
  await limiter.refund("ann", 1, check);
  assert.equal((await limiter.check("ann")).allowed, true);
  assert.equal((await limiter.check("ann")).allowed, false);
  await limiter.reset("ann");
  assert.equal((await limiter.check("ann")).allowed, true);
});

withEach("without remember every call asks the server", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "search", "1/1h", { remember: false });
  for (let n = 0; n < 5; n++) await limiter.check("ann");
  assert.equal(await calls("zrl.check"), 5);
  await place.call("DEL", "search:ann");
  assert.equal((await limiter.check("ann")).allowed, true);
});

withEach("a denial of several limits is remembered, and tells of all of them", async (place) => {
  const calls = asked(place);
  const minute = new Limiter(place.redis, "minute", "1/1h");
  const day = new Limiter(place.redis, "day", "10/1d");
  const ask = () => checkAll([day, "{ann}"], [minute, "{ann}"]);
  const first = await ask();
  const denied = await ask();
  assert.equal(denied.allowed, false);
  assert.equal(await calls("zrl.mcheck"), 2);
  const again = await ask();
  assert.deepEqual(again.checks.map(({ allowed, remaining }) => [allowed, remaining]), [[true, 9], [false, 0]]);
  assert.ok(again.retryAfterMs > 3_500_000 && again.retryAfterMs <= denied.retryAfterMs);
  assert.deepEqual(Object.keys(again.headers()), ["RateLimit-Policy", "RateLimit", "Retry-After"]);
  assert.equal((await minute.check("{ann}")).allowed, false, "the limit that denied stays denied by itself");
  assert.equal(await calls("zrl.mcheck", "zrl.check"), 0);
  await checkAll([day, "{ann}", 2], [minute, "{ann}"]);
  assert.equal(await calls("zrl.mcheck"), 1, "another call");
  await minute.refund("{ann}", 1, first.checks[1] ?? 0);
  assert.equal((await ask()).allowed, true);
});

test("the keys that were asked for least recently are forgotten first", async () => {
  let calls = 0;
  const denies = async (): Promise<unknown> => {
    calls += 1;
    return [0, 1, 0, 3_600_000, 3_600_000, 0];
  };
  const limiter = new Limiter({ sendCommand: denies, multi: () => null }, "search", "1/1h");
  for (let n = 0; n < 10_000; n++) await limiter.check(`key ${n}`);
  await limiter.check("key 0");
  assert.equal(calls, 10_000);
  await limiter.check("one more");
  await limiter.check("key 0");
  assert.equal(calls, 10_001);
  await limiter.check("key 1");
  assert.equal(calls, 10_002);
});

test("a denial that was on its way while units were given back is not remembered", async () => {
  const late = deferred<unknown>();
  const replies = [late.promise, Promise.resolve(1), Promise.resolve([1, 1, 0, 0, 1000, 5])];
  const limiter = new Limiter({ sendCommand: async () => replies.shift(), multi: () => null }, "search", "1/1h");
  const denied = limiter.check("ann");
  await limiter.refund("ann", 1, 1_800_000_000_000);
  late.resolve([0, 1, 0, 3_600_000, 3_600_000, 0]);
  assert.equal((await denied).allowed, false);
  assert.equal((await limiter.check("ann")).allowed, true);
});
