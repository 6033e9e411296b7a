/** Builds ZRL commands, and parses their replies. Does no I/O. */

import type { Reply, Word } from "../connection.js";
import { type Duration, duration, inMs, integer, list, milliseconds, whole } from "../values.js";

export type Algorithm = "sliding" | "fixed" | "leaky";

/** How many units a window has, and when they become available again. */
export interface Policy {
  readonly limit: number;
  readonly windowMs: number;
  readonly algorithm: Algorithm;
  /**
   * The precision of the time at which a unit becomes available again. `"exact"` means 1 ms. The default is the one of
   * ZRL.CHECK.
   */
  readonly precision?: "exact" | Duration | undefined;
}

/** The six fields of ZRL.CHECK. */
export interface Fields {
  readonly allowed: boolean;
  readonly limit: number;
  /** The number of free units. If it is negative, the limit is in debt. */
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
  readonly chargedUntilMs: number;
}

/** Names of units of time, in addition to the names that the commands accept. */
const NAMES: readonly (readonly [RegExp, string])[] = [
  [/^milliseconds?$/, "ms"],
  [/^sec(ond)?s?$/, "s"],
  [/^min(ute)?s?$/, "m"],
  [/^hours?$/, "h"],
  [/^days?$/, "d"],
  [/^weeks?$/, "w"],
];

/** Reads a policy from text: `"5/1m"`, `"5/m"`, `"5/minute"`, `"100/2 hours"`. */
export function policy(rate: string, algorithm: Algorithm = "sliding", precision?: "exact" | Duration): Policy {
  const match = /^(\d+)\s*\/\s*(\d+(?:\.\d+)?)?\s*([a-z]*)$/i.exec(rate.trim());
  const [, limit, count, unit = ""] = match ?? [];
  if (limit === undefined || (count === undefined && unit === "")) {
    throw new RangeError(`expected a rate such as 5/1m or 100/hour, not ${rate}`);
  }
  const name = unit.toLowerCase();
  const short = NAMES.find(([names]) => names.test(name))?.[1] ?? name;
  const units = Number(limit);
  const windowMs = milliseconds(`${count ?? 1}${short}`);
  if (units < 1 || !Number.isSafeInteger(units) || windowMs < 1) throw new RangeError(`not a limit: ${rate}`);
  return { limit: units, windowMs, algorithm, precision };
}

export interface Take {
  readonly key: string;
  readonly policy: Policy;
  readonly cost: number;
}

export interface HowToTake {
  /** Whether to check the limit without taking units. */
  readonly peek?: boolean;
  /** Whether to take the units even if they do not fit. */
  readonly force?: boolean;
}

export function check({ key, policy, cost }: Take, { peek = false, force = false }: HowToTake = {}): Word[] {
  const words = [peek ? "ZRL.PEEK" : "ZRL.CHECK", key, whole(policy.limit, "the limit"), inMs(policy.windowMs)];
  if (cost !== 1) words.push("COST", whole(cost, "cost"));
  if (policy.algorithm !== "sliding") words.push(policy.algorithm.toUpperCase());
  words.push(...precision(policy));
  if (force) words.push("FORCE");
  return words;
}

export function checkAll(takes: readonly Take[], { force = false }: HowToTake = {}): Word[] {
  const words = ["ZRL.MCHECK", `${takes.length}`, ...takes.map((take) => take.key)];
  for (const { policy } of takes) words.push(whole(policy.limit, "the limit"), inMs(policy.windowMs));
  words.push("COST", ...takes.map((take) => whole(take.cost, "cost")));
  words.push(...takes.map((take) => take.policy.algorithm.toUpperCase()));
  const grids = takes.filter((take) => take.policy.algorithm === "sliding").map((take) => precision(take.policy));
  if (new Set(grids.map(String)).size > 1) throw new RangeError("all SLIDING limits of one call must have the same precision");
  words.push(...(grids[0] ?? []));
  if (force) words.push("FORCE");
  return words;
}

function precision(policy: Policy): string[] {
  if (policy.precision === undefined) return [];
  return policy.precision === "exact" ? ["EXACT"] : ["PRECISION", duration(policy.precision)];
}

export const refund = (key: string, units: number, chargedUntilMs: number): Word[] => [
  "ZRL.REFUND",
  key,
  whole(units, "units"),
  "AT",
  `${chargedUntilMs}ms`,
];

export function checked(reply: Reply): Fields {
  const [allowed, limit, remaining, retryAfter, resetAfter, chargedUntil] = list(reply);
  return {
    allowed: integer(allowed) === 1,
    limit: integer(limit),
    remaining: integer(remaining),
    retryAfterMs: integer(retryAfter),
    resetAfterMs: integer(resetAfter),
    chargedUntilMs: integer(chargedUntil),
  };
}

export function checkedAll(reply: Reply): { allowed: boolean; limits: Fields[] } {
  const [allowed, ...limits] = list(reply);
  return { allowed: integer(allowed) === 1, limits: limits.map(checked) };
}
