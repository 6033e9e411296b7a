import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { checkAll, Limiter } from "zeitset";
import { asked, withEach } from "./support/clients.js";
import { Proxy } from "./support/proxy.js";
import { Server } from "./support/server.js";
import { RECORD } from "./support/taker.js";
import { until } from "./support/until.js";

const TAKER = fileURLToPath(new URL("support/taker.js", import.meta.url));

withEach("units ahead are handed out without the server, and those left over go back", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "api", "10000/1m", { ahead: 200 });
  const checks = [];
  for (let n = 0; n < 3000; n++) checks.push(await limiter.check("ann"));
  assert.ok(checks.every(({ allowed, error }) => allowed && !error));
  const sent = await calls("zrl.check");
  assert.ok(sent < 100, `${sent} calls for 3000 decisions`);
  assert.deepEqual(checks.map(({ remaining }) => remaining), checks.map((_, n) => 10_000 - 1 - n), "nobody else takes units");
  assert.match(checks.at(-1)?.headers()["RateLimit-Policy"] ?? "", /;q=10000;w=60$/, "the policy is the user's");
  await until("the rest goes back", async () => Number(await level(place, "api:ann")) === 3000);
});

withEach("a key that is seldom asked for costs one call, and no unit ahead", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "api", "1000/10s", { ahead: 200 });
  for (let n = 0; n < 20; n++) await limiter.check(`user ${n}`);
  assert.equal(await calls("zrl.check"), 20);
  for (let n = 0; n < 20; n++) assert.equal(await level(place, `api:user ${n}`), 1);
  await limiter.close();
  assert.equal(await calls("zrl.check", "zrl.refund"), 0);
});

withEach("close gives everything back, and the limiter goes on without units ahead", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "api", "10000/1h", { ahead: 200 });
  for (let n = 0; n < 300; n++) await limiter.check("ann");
  const flying = limiter.check("ann", { cost: 150 });
  await limiter.close();
  await flying;
  assert.equal(await level(place, "api:ann"), 450);
  await calls("zrl.check");
  for (let n = 0; n < 10; n++) await limiter.check("ann");
  assert.equal(await calls("zrl.check"), 10);
  assert.equal(await level(place, "api:ann"), 460);
});

withEach("calls at one time share calls of the server, and each unit is counted once", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "api", "1000/1h", { ahead: 10 });
  const checks = await Promise.all(Array.from({ length: 1500 }, (_, n) => limiter.check("ann", { cost: 1 + (n % 2) })));
  const taken = checks.reduce((sum, { allowed }, n) => sum + (allowed ? 1 + (n % 2) : 0), 0);
  assert.equal(taken, 1000);
  for (const { allowed, retryAfterMs, remaining } of checks) {
    assert.ok(allowed ? retryAfterMs === 0 : retryAfterMs > 3_500_000, `${retryAfterMs}`);
    assert.ok(remaining >= 0 && remaining <= 1000);
  }
  assert.ok((await calls("zrl.check")) < 20);
});

withEach("a denial is asked for again after the hold, as others give back", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "api", "100/10s", { ahead: 50 });
  await place.call("ZRL.CHECK", "api:ann", "100", "10101ms", "COST", "100");
  assert.equal((await limiter.check("ann")).allowed, false);
  for (let n = 0; n < 10; n++) await limiter.check("ann");
  assert.ok((await calls("zrl.check")) <= 4);
  await place.call("DEL", "api:ann");
  await until("it asks again", async () => (await limiter.check("ann")).allowed, 5000);
});

withEach("refunds, resets and forced calls of a limiter with units ahead", async (place) => {
  const limiter = new Limiter(place.redis, "api", "1000/1h", { ahead: 100 });
  const checks = [];
  for (let n = 0; n < 50; n++) checks.push(await limiter.check("ann"));
  assert.equal(await limiter.refund("ann", 1, checks.at(-1) ?? 0), 1);
  assert.equal((await limiter.check("ann", { cost: 0 })).chargedUntilMs, 0);
  const forced = await limiter.check("ann", { cost: 2000, force: true });
  assert.ok(forced.allowed && forced.debt > 0);
  await limiter.reset("ann");
  assert.equal((await limiter.check("ann")).remaining, 999, "none is left from before the reset");
  await limiter.close();
  assert.equal(await level(place, "api:ann"), 1);
});

withEach("a limiter with units ahead takes part in calls for several limits", async (place) => {
  const second = new Limiter(place.redis, "second", "100/10s", { ahead: 20 });
  const day = new Limiter(place.redis, "day", "1000/1d");
  for (let n = 0; n < 10; n++) await second.check("{ann}");
  await second.close();
  const { allowed, checks } = await checkAll([second, "{ann}", 5], [day, "{ann}"]);
  assert.deepEqual([allowed, checks[0]?.remaining, checks[1]?.remaining], [true, 85, 999]);
});

withEach("costs that are no whole number of units are refused", async ({ redis }) => {
  const limiter = new Limiter(redis, "api", "1000/10s", { ahead: 100 });
  for (let n = 0; n < 10; n++) await limiter.check("ann");
  for (const cost of [-1, 0.5, NaN]) await assert.rejects(limiter.check("ann", { cost }), RangeError, `${cost}`);
  await limiter.close();
});

test("what cannot be held to its promise is refused", () => {
  const client = { sendCommand: async () => null, multi: () => null };
  const make = (rate: string, options: object): unknown => new Limiter(client, "api", rate, options);
  for (const ahead of [0, -1, 1.5, NaN]) assert.throws(() => make("100/1s", { ahead }), RangeError);
  for (const algorithm of ["fixed", "leaky"]) assert.throws(() => make("100/1s", { ahead: 10, algorithm }), RangeError);
  assert.throws(() => make("100/99ms", { ahead: 10 }), RangeError);
  assert.throws(() => make("100/1s", { ahead: 10, remember: false }), RangeError);
  const sentinel = { ...client, getSentinelNode: () => null };
  assert.throws(() => new Limiter(sentinel, "api", "100/1s", { ahead: 10 }), /Sentinel/);
});

withEach("a refund whose reply is lost is not sent again", async ({ server, connect, test, call }) => {
  const proxy = await Proxy.start(test, server.port);
  const redis = await connect(test, proxy);
  const limiter = new Limiter(redis, "api", "1000/1h", { timeout: "5s" });
  const check = await limiter.check("ann", { cost: 100 });
  proxy.loseReplyTo = "ZRL.REFUND";
  const refund = limiter.refund("ann", 10, check);
  refund.catch(() => undefined);
  await until("the reply is lost", () => proxy.lost === 1);
  await until("the client is back", () => limiter.check("bob").then(({ allowed }) => allowed, () => false));
  await Promise.allSettled([refund]);
  assert.equal(await level({ call }, "api:ann"), 90);
});

withEach("units ahead that come after the caller has given up go back", async ({ server, redis, test, call }) => {
  const limiter = new Limiter(redis, "api", "1000/1h", { ahead: 100, timeout: "200ms" });
  for (let n = 0; n < 3; n++) await limiter.check("ann");
  assert.equal(await level({ call }, "api:ann"), 3);
  await server.frozen(async () => {
    await assert.rejects(limiter.check("ann"));
  });
  // The unit of the caller stays charged, as without units ahead.
  await until("they go back", async () => (await level({ call }, "api:ann")) === 4);
  test.after(() => limiter.close());
});

withEach("a unit that is handed out late is not available again before a window has passed since then", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "api", "10/5s", { ahead: 10, precision: "exact" });
  for (let round = 0; ; round++) {
    const key = `ann ${round}`;
    await limiter.check(key);
    const { chargedUntilMs } = await limiter.check(key);
    await sleep(30);
    const begunMs = performance.now();
    if ((await limiter.check(key)).chargedUntilMs !== chargedUntilMs) continue; // busy machine: the hold has passed
    await until("all are available again", async () => (await call("ZRL.CHECK", `api:${key}`, "10", "5051ms", "COST", "10", "EXACT") as number[])[0] === 1);
    assert.ok(performance.now() - begunMs >= 5000);
    return;
  }
});

/** Units in use. */
async function level({ call }: { call(...words: string[]): Promise<unknown> }, key: string): Promise<number> {
  const info = (await call("ZRL.INFO", key)) as unknown[] | null;
  return info === null ? 0 : Number(info[info.indexOf("units") + 1]);
}

const KEYS = ["one", "two", "three"];
const LIMIT = 300;
const WINDOW_MS = 1500;

for (const library of ["node-redis", "ioredis"]) {
  test(`eight processes never get more than the limit in any window, and some are killed (${library})`, { timeout: 600_000 }, async (t) => {
    const server = await Server.start(t);
    const folder = mkdtempSync(join(tmpdir(), "zeitset-takers-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const files: string[] = [];
    const children = new Set<ChildProcess>();
    const start = (): void => {
      const file = join(folder, `${files.push(`${files.length}`)}`);
      files[files.length - 1] = file;
      const child = fork(TAKER, [library, server.url, `${LIMIT}/${WINDOW_MS}ms`, "200", file, ...KEYS]);
      children.add(child);
      child.once("exit", () => children.delete(child));
      t.after(() => void child.kill("SIGKILL"));
    };
    const records = (): Given[] => files.flatMap((file) => (existsSync(file) ? read(file) : []));
    const units = (key: number): number => records().filter((record) => record.key === key).length;
    const denied = async (): Promise<number> => Number(/zeitset_checks_denied:(\d+)/.exec(await server.ask("INFO zeitset"))?.[1]);
    for (let n = 0; n < 8; n++) start();
    await until("all take units", () => files.every((file) => existsSync(file)));
    for (let n = 0; n < 8; n++) {
      const [victim] = [...children];
      victim?.kill("SIGKILL");
      start();
      const [before, was] = [units(0), await denied()];
      await until("the others go on, and reach the limit", async () => units(0) > before + LIMIT / 2 && (await denied()) > was);
    }
    await until("units of each key became available again", () => KEYS.every((_, at) => units(at) > 2 * LIMIT));
    for (const child of children) child.send("stop");
    await until("all end by themselves", () => children.size === 0);

    const calls = Number(/cmdstat_zrl.check:calls=(\d+)/i.exec(await server.ask("INFO commandstats"))?.[1]);
    t.diagnostic(`${records().length} units, ${calls} calls of the server`);
    for (const [at, key] of KEYS.entries()) {
      const most = fullest(records().filter((record) => record.key === at));
      assert.ok(most <= LIMIT, `${most} of ${key} in one window`);
    }
  });
}

interface Given {
  readonly key: number;
  readonly beginMs: number;
  readonly endMs: number;
}

function read(file: string): Given[] {
  const bytes = readFileSync(file);
  const ms = (at: number): number => Number(bytes.readBigUInt64LE(at)) / 1e6;
  return Array.from({ length: Math.floor(bytes.length / RECORD) }, (_, n) => {
    const at = n * RECORD;
    return { key: Number(bytes.readBigUInt64LE(at)), beginMs: ms(at + 8), endMs: ms(at + 16) };
  });
}

/**
 * Returns the most units that were certainly handed out within one window. A unit counts if its call began after the
 * start of the window, and ended before the end.
 */
function fullest(given: readonly Given[]): number {
  const begins = given.map(({ beginMs }) => beginMs).sort((a, b) => a - b);
  const ends = given.map(({ endMs }) => endMs).sort((a, b) => a - b);
  let ended = 0;
  let most = 0;
  for (const [begun, from] of begins.entries()) {
    while (ended < ends.length && (ends[ended] as number) < from + WINDOW_MS) ended += 1;
    most = Math.max(most, ended - begun);
  }
  return most;
}
