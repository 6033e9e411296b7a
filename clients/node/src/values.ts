/** How durations, instants and replies are written and read. */

import { inspect } from "node:util";
import type { Reply } from "./connection.js";
import { ProtocolError } from "./errors.js";

/**
 * A number of seconds, a string as the commands take it (`"250ms"`, `"1.5h"`, `"7d"`), or an object: `{ seconds: 30 }`,
 * `{ ms: 250 }`.
 */
export type Duration = number | string | { readonly [unit in keyof typeof NAMED]?: number };

/** A moment: a date, or Unix time in milliseconds. */
export type Instant = Date | number;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const NAMED = { ms: 1, seconds: 1000, minutes: 60_000, hours: 3_600_000, days: 86_400_000 };

/** Formats a duration as the argument of a command. */
export const duration = (value: Duration): string => inMs(milliseconds(value));

/** Returns milliseconds as an argument of a command. */
export const inMs = (ms: number): string => `${Math.ceil(ms)}ms`;

/** Returns a duration in milliseconds: `"1.5h"` is 5,400,000. */
export function milliseconds(value: Duration): number {
  const ms = exact(value);
  if (ms === undefined || !(ms >= 0 && ms <= Number.MAX_SAFE_INTEGER)) {
    throw new RangeError(`expected a duration such as 30 (seconds), "250ms", "5m" or { seconds: 30 }, not ${shown(value)}`);
  }
  // Without `toFixed`, 2.007 s would become 2,008 ms, because 2.007 × 1000 is slightly too large in floating point.
  return Math.ceil(Number(ms.toFixed(6)));
}

function exact(value: Duration): number | undefined {
  if (typeof value === "number") return value * 1000;
  if (typeof value === "string") {
    const match = /^(\d+(?:\.\d+)?)(ms|[smhdw])?$/i.exec(value);
    return match ? Number(match[1]) * (UNITS[match[2]?.toLowerCase() ?? "s"] ?? NaN) : undefined;
  }
  const parts = Object.entries(value ?? {}) as [keyof typeof NAMED, number][];
  if (parts.length === 0) return undefined;
  // NaN if a part is negative, is not a number, or has an unknown unit.
  return parts.reduce((sum, [unit, count]) => sum + (typeof count === "number" && count >= 0 ? count * NAMED[unit] : NaN), 0);
}

const shown = (value: unknown): string => inspect(value, { breakLength: Infinity, depth: 1, maxArrayLength: 3, maxStringLength: 80 });

/** Formats an instant as the argument of a command's AT. */
export function instant(value: Instant): string {
  const ms = value instanceof Date ? value.getTime() : value;
  if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`not a time: ${String(value)}`);
  return `${Math.floor(ms)}ms`;
}

/** Returns an integer as an argument of a command. */
export function whole(value: number | bigint, name: string): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new RangeError(`${name} must be a whole number, not ${value}`);
  return value.toString();
}

/**
 * Returns an integer of a reply. With `stringNumbers` or a type mapping, clients return integers as text. Times, counts
 * and tokens are below 2^53. This function rejects larger integers, because the client may have rounded them.
 */
export function integer(reply: Reply | undefined): number {
  const value = typeof reply === "number" ? reply : Number(text(reply));
  if (!Number.isSafeInteger(value)) throw new ProtocolError(`expected an integer below 2^53, got ${shown(reply)}`);
  return value;
}

export function integerOrNull(reply: Reply | undefined): number | null {
  return reply === null || reply === undefined ? null : integer(reply);
}

export function text(reply: Reply | undefined): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Buffer) return reply.toString();
  if (typeof reply === "number" || typeof reply === "bigint") return reply.toString();
  throw new ProtocolError(`expected text, got ${shown(reply)}`);
}

export function textOrNull(reply: Reply | undefined): string | null {
  return reply === null || reply === undefined ? null : text(reply);
}

/** Returns the items of an array, or of a set of RESP3. */
export function list(reply: Reply | undefined): readonly Reply[] {
  if (Array.isArray(reply)) return reply;
  if (reply instanceof Set) return [...reply];
  throw new ProtocolError(`expected an array, got ${shown(reply)}`);
}

/**
 * Returns a map of a reply. In RESP2, the reply is an array of names and values. In RESP3, it has the client's type for
 * maps.
 */
export function fields(reply: Reply): ReadonlyMap<string, Reply> {
  const map = new Map<string, Reply>();
  if (reply instanceof Map) {
    for (const [name, value] of reply) map.set(text(name), value);
  } else if (Array.isArray(reply)) {
    for (let at = 0; at + 1 < reply.length; at += 2) map.set(text(reply[at]), reply[at + 1]);
  } else if (typeof reply === "object" && reply !== null && !(reply instanceof Buffer)) {
    for (const [name, value] of Object.entries(reply)) map.set(name, value);
  } else {
    throw new ProtocolError(`expected a map, got ${shown(reply)}`);
  }
  return map;
}

/**
 * Returns the name of a field in camel case: `max_attempts` becomes `maxAttempts`. `groupconcurrency` becomes
 * `groupConcurrency`, as in `configure`.
 */
export const camelCase = (name: string): string =>
  name.replace(/^group(?=concurrency|rate)/, "group_").replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
