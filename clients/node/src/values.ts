/** How durations, instants and replies are written and read. Pure. */

import type { Reply } from "./connection.js";

/** Milliseconds as a number, or text as the commands take it: `"250ms"`, `"1.5h"`, `"7d"`. */
export type Duration = number | string;

/** When something is due: a date, or Unix time in milliseconds. */
export type Instant = Date | number;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** A duration as a command takes it. (A bare number would be seconds there.) */
export function duration(value: Duration): string {
  if (typeof value === "string") return value;
  if (!Number.isFinite(value) || value < 0) throw new RangeError(`not a duration in milliseconds: ${value}`);
  return `${Math.ceil(value)}ms`;
}

/** A duration in milliseconds: `"1.5h"` is 5,400,000. */
export function milliseconds(value: Duration): number {
  if (typeof value === "number") return value;
  const match = /^(\d+(?:\.\d+)?)(ms|[smhdw])?$/i.exec(value);
  const unit = UNITS[match?.[2]?.toLowerCase() ?? "s"];
  if (!match || unit === undefined) throw new RangeError(`not a duration: ${value}`);
  return Math.ceil(Number(match[1]) * unit);
}

/** An instant as a command takes it after AT. */
export function instant(value: Instant): string {
  const ms = value instanceof Date ? value.getTime() : value;
  if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`not a time: ${String(value)}`);
  return `${Math.floor(ms)}ms`;
}

/** An integer as an argument. */
export function whole(value: number | bigint, name: string): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new RangeError(`${name} must be a whole number, not ${value}`);
  return value.toString();
}

/**
 * An integer of a reply. node-redis and ioredis answer numbers, or text where they were told to (`stringNumbers`, a type mapping).
 * Times, counts and tokens stay below 2^53; whatever does not is refused here, since the client would have rounded it.
 */
export function integer(reply: Reply | undefined): number {
  const value = typeof reply === "number" ? reply : Number(text(reply));
  if (!Number.isSafeInteger(value)) throw new RangeError(`expected an integer below 2^53, got ${String(reply)}`);
  return value;
}

export function integerOrNull(reply: Reply | undefined): number | null {
  return reply === null || reply === undefined ? null : integer(reply);
}

export function text(reply: Reply | undefined): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Buffer) return reply.toString();
  if (typeof reply === "number" || typeof reply === "bigint") return reply.toString();
  throw new TypeError(`expected text, got ${String(reply)}`);
}

export function textOrNull(reply: Reply | undefined): string | null {
  return reply === null || reply === undefined ? null : text(reply);
}

/** An array, or a set of RESP3. */
export function list(reply: Reply | undefined): readonly Reply[] {
  if (Array.isArray(reply)) return reply;
  if (reply instanceof Set) return [...reply];
  throw new TypeError(`expected an array, got ${String(reply)}`);
}

/** A map of a reply by its names: in RESP2 an array of names and values, in RESP3 whatever the client makes of a map. */
export function fields(reply: Reply): ReadonlyMap<string, Reply> {
  const map = new Map<string, Reply>();
  if (reply instanceof Map) {
    for (const [name, value] of reply) map.set(text(name), value);
  } else if (Array.isArray(reply)) {
    for (let at = 0; at + 1 < reply.length; at += 2) map.set(text(reply[at]), reply[at + 1]);
  } else if (typeof reply === "object" && reply !== null && !(reply instanceof Buffer)) {
    for (const [name, value] of Object.entries(reply)) map.set(name, value);
  } else {
    throw new TypeError(`expected a map, got ${String(reply)}`);
  }
  return map;
}

/** Fields of a reply as an object in camel case: `max_attempts` becomes `maxAttempts`. */
export const camelCase = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
