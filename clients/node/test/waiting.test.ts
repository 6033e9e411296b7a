import assert from "node:assert/strict";
import { test } from "node:test";
import { Limiter, TimeoutError } from "zeitset";
import { asked, withEach } from "./support/clients.js";
import { until } from "./support/until.js";

withEach("wait takes the units as soon as they fit, for all who wait", async (place) => {
  const calls = asked(place);
  const limiter = new Limiter(place.redis, "github", "4/400ms", { precision: "exact" });
  const taken: number[] = [];
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const { allowed, chargedUntilMs } = await limiter.wait("ann");
      assert.ok(allowed);
      taken.push(chargedUntilMs);
    }),
  );
  taken.sort((a, b) => a - b);
  for (const [n, ms] of taken.entries()) {
    const earlier = taken[n - 4];
    if (earlier !== undefined) assert.ok(ms >= earlier + 400, "never five in a window");
  }
  const asks = await calls("zrl.check");
  assert.ok(asks < 20 * 20, `${asks} calls`);
});

withEach("wait fails at once if the units cannot fit in time, and takes nothing", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "github", "2/1h");
  assert.equal((await limiter.wait("ann", { cost: 2, timeout: 5 })).remaining, 0);
  const error = await limiter.wait("ann", { timeout: "30m" }).then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof TimeoutError);
  assert.equal(error.message, "github does not allow 1 units for ann in time");
  await assert.rejects(limiter.wait("ann", { cost: 3 }), { name: "CostTooHigh" });
  await call("DEL", "github:ann");
  await assert.rejects(limiter.wait("ann", { timeout: 0 }), TimeoutError, "the denial is remembered");
  assert.equal(await call("EXISTS", "github:ann"), 0);
});

withEach("a signal ends the wait, and nothing is taken then", async ({ redis, call }) => {
  const limiter = new Limiter(redis, "github", "1/1h");
  await limiter.check("ann");
  const controller = new AbortController();
  const wait = limiter.wait("ann", { signal: controller.signal });
  const reason = new Error("the user has gone");
  setTimeout(() => controller.abort(reason), 20);
  await assert.rejects(wait, reason);
  await assert.rejects(limiter.wait("bob", { signal: AbortSignal.abort(reason) }), reason);
  assert.equal(await call("EXISTS", "github:bob"), 0);
});

withEach("while Redis is away, wait does as the limiter was told", async ({ redis, server }) => {
  const make = (onError: "raise" | "allow" | "deny"): Limiter => new Limiter(redis, "l", "1000/1h", { onError, timeout: "100ms" });
  await make("raise").check("ann");
  await server.kill();
  await assert.rejects(make("raise").wait("ann"));
  assert.ok((await make("allow").wait("ann")).error);
  await assert.rejects(make("deny").wait("ann", { timeout: "500ms" }), (error: Error) => error instanceof TimeoutError && error.cause instanceof Error);
  const wait = make("deny").wait("ann");
  await server.run();
  assert.equal((await wait).error, undefined);
});

test("a wait longer than a timer can be does not turn into none", async (t) => {
  let calls = 0;
  const century = 3_000_000_000_000;
  const denies = async (): Promise<unknown> => {
    calls += 1;
    return [0, 1, 0, century, century, 0];
  };
  const limiter = new Limiter({ sendCommand: denies, multi: () => null }, "l", "1/36500d", { remember: false });
  const controller = new AbortController();
  t.after(() => controller.abort());
  const wait = limiter.wait("ann", { signal: controller.signal });
  wait.catch(() => undefined);
  await until("it has asked", () => calls === 1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(calls, 1);
});
