/** clients/limiter-cases.json: rates, header fields and decisions of a limiter, the same in all languages. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Check, Checks, checkAll, CostTooHigh, Limiter, type LimiterOptions } from "zeitset";
import { type Place, withEach } from "./support/clients.js";

type Ask = [limit: string, key: string, cost: number];
type Options = { name: string; rate: string; on_error?: "allow" | "deny" } & LimiterOptions;

interface Step {
  readonly check?: Ask[];
  readonly force?: Ask;
  readonly peek?: Ask;
  readonly refund?: Ask;
  readonly reset?: [limit: string, key: string];
  readonly close?: string;
  readonly command?: string[];
  readonly of?: number;
  readonly at?: number;
  readonly times?: number;
  readonly allowed?: boolean;
  readonly each?: boolean[];
  readonly remaining?: number[];
  readonly debt?: number[];
  readonly returns?: unknown;
  readonly error?: string;
  readonly calls?: number;
  readonly at_most?: number;
}

interface Cases {
  readonly rates: [rate: string, limit: number | null, windowMs: number | null][];
  readonly refused: Options[];
  readonly fields: {
    readonly about: string;
    readonly policies: [name: string, limit: number, windowMs: number, unit?: string][];
    readonly checks: [allowed: boolean, remaining: number, retryAfterMs: number, resetAfterMs: number][] | null;
    readonly fields: Record<string, string>;
  }[];
  readonly histories: { readonly about: string; readonly limits: Record<string, Options>; readonly steps: Step[] }[];
}

const docs = process.env["DOCS"] ?? fileURLToPath(new URL("../../../../docs", import.meta.url));
const cases = JSON.parse(readFileSync(join(docs, "../clients/limiter-cases.json"), "utf8")) as Cases;
const nobody = { sendCommand: async () => null, duplicate: () => null, multi: () => null };

const limiterOf = (redis: Limiter["client"], { name, rate, on_error, ...options }: Options): Limiter =>
  new Limiter(redis, name, rate, { ...options, ...(on_error && { onError: on_error }) });

test("a rate means what it means in the other libraries", () => {
  for (const [rate, limit, windowMs] of cases.rates) {
    if (limit === null) {
      assert.throws(() => new Limiter(nobody, "a", rate), RangeError, rate);
    } else {
      const limiter = new Limiter(nobody, "a", rate);
      assert.deepEqual([limiter.limit, limiter.windowMs], [limit, windowMs], rate);
    }
  }
  for (const options of cases.refused) assert.throws(() => limiterOf(nobody, options), RangeError, JSON.stringify(options));
});

test("header fields are those of the other libraries", () => {
  for (const { about, policies, checks, fields } of cases.fields) {
    const each = policies.map(([name, limit, windowMs, unit], at) => {
      const [allowed, remaining, retryAfterMs, resetAfterMs] = checks?.[at] ?? [true, 0, 0, 0];
      const error = checks ? undefined : new Error("Redis is away");
      return new Check({ allowed, limit, remaining, retryAfterMs, resetAfterMs, chargedUntilMs: 0 }, { name, limit, windowMs, unit }, error);
    });
    assert.deepEqual(new Checks(each.every(({ allowed }) => allowed), each).headers(), fields, about);
    if (each.length === 1) assert.deepEqual(each[0]?.headers(), fields, about);
  }
});

for (const { about, limits, steps } of cases.histories) {
  withEach(about, async (place) => {
    const limiters = new Map(Object.entries(limits).map(([name, options]) => [name, limiterOf(place.redis, options)]));
    const of = (name: string): Limiter => limiters.get(name) ?? assert.fail(name);
    const earlier: Check[][] = [];
    for (const step of steps) {
      const what = JSON.stringify(step);
      const before = await sent(place);
      let outcome: Outcome = { checks: [] };
      for (let n = 0; n < (step.times ?? 1); n++) {
        const acting = act(place, of, step, earlier);
        if (step.error === "cost") await assert.rejects(acting, CostTooHigh, what);
        else if (step.error === "argument") await assert.rejects(acting, RangeError, what);
        else if (step.error) await assert.rejects(acting, new RegExp(step.error), what);
        else outcome = await acting;
      }
      const { checks, returned } = outcome;
      earlier.push(checks);
      const calls = (await sent(place)) - before;
      assert.ok(calls === (step.calls ?? calls) && calls <= (step.at_most ?? calls), `${calls} calls: ${what}`);
      if ("returns" in step) assert.equal(returned, step.returns, what);
      if (step.allowed === undefined) continue;
      const allowed = step.each ?? checks.map(() => step.allowed);
      assert.deepEqual(checks.map((check) => check.allowed), allowed, what);
      assert.deepEqual(checks.map(({ retryAfterMs }) => retryAfterMs === 0), allowed, what);
      if (step.remaining) assert.deepEqual(checks.map(({ remaining }) => remaining), step.remaining, what);
      assert.deepEqual(checks.map(({ debt }) => debt), step.debt ?? checks.map(() => 0), what);
    }
  });
}

interface Outcome {
  readonly checks: Check[];
  readonly returned?: unknown;
}

async function act(place: Place, of: (name: string) => Limiter, step: Step, earlier: Check[][]): Promise<Outcome> {
  if (step.check) {
    const [first] = step.check;
    if (step.check.length === 1 && first) return { checks: [await of(first[0]).check(first[1], { cost: first[2] })] };
    const both = await checkAll(...step.check.map(([name, key, cost]) => [of(name), key, cost] as const));
    assert.equal(both.allowed, step.allowed);
    return { checks: [...both.checks] };
  }
  const [name, key, cost] = step.force ?? step.peek ?? step.refund ?? [step.reset?.[0] ?? step.close ?? "", step.reset?.[1] ?? "", 0];
  if (step.force) return { checks: [await of(name).check(key, { cost, force: true })] };
  if (step.peek) return { checks: [await of(name).peek(key, { cost })] };
  if (step.refund) {
    const check = earlier[step.of ?? 0]?.[step.at ?? 0] ?? assert.fail("no such check");
    return { checks: [], returned: await of(name).refund(key, cost, check) };
  }
  if (step.reset) return { checks: [], returned: await of(name).reset(key) };
  if (step.close) return { checks: [], returned: await of(name).close() };
  const reply = await place.call(...(step.command ?? []));
  return { checks: [], returned: step.at === undefined ? reply : (reply as unknown[])[step.at] };
}

/** Returns how many commands for limits the server has got. */
async function sent({ call }: Place): Promise<number> {
  const stats = String(await call("INFO", "commandstats"));
  return [...stats.matchAll(/^cmdstat_ZRL\.\w+:calls=(\d+)/gim)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}
