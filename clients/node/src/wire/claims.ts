/** The commands of workers: ZQ.CLAIM, ACK, NACK, EXTEND. */

import { isUtf8 } from "node:buffer";
import type { Reply, Word } from "../connection.js";
import { ProtocolError } from "../errors.js";
import { inMs, integer, integerOrNull, list, text } from "../values.js";
import { bytes } from "./queues.js";

/** A job in the reply to ZQ.CLAIM. The token is a time in microseconds, which a number holds exactly. */
export interface Claimed {
  /** The key of the queue, or of its shard. */
  readonly key: string;
  /** An ID that is not UTF-8 has its bytes in the form `\xff`. */
  readonly id: string;
  /** The ID in commands. */
  readonly rawId: Word;
  readonly token: number;
  readonly attempt: number;
  readonly deadlineMs: number;
  readonly raw: Buffer;
}

export interface Claim {
  readonly keys: readonly string[];
  readonly leaseMs: number;
  readonly count: number;
  /** How long to wait for a job. By default, the command does not wait. */
  readonly blockMs?: number;
  readonly worker: string;
}

export function claim({ keys, leaseMs, count, blockMs, worker }: Claim): Word[] {
  const words = ["ZQ.CLAIM", `${keys.length}`, ...keys, "LEASE", inMs(leaseMs), "COUNT", `${count}`, "AS", worker];
  if (blockMs !== undefined) words.push("BLOCK", inMs(blockMs));
  return words;
}

export function claimed(reply: Reply): Claimed[] {
  return list(reply).map((row) => {
    const [key, id, token, attempt, deadlineMs, payload] = list(row);
    return {
      key: text(key),
      ...idsOf(id),
      token: integer(token),
      attempt: integer(attempt),
      deadlineMs: integer(deadlineMs),
      raw: bytes(payload),
    };
  });
}

function idsOf(reply: Reply | undefined): Pick<Claimed, "id" | "rawId"> {
  if (!(reply instanceof Buffer) || isUtf8(reply)) return { id: text(reply), rawId: text(reply) };
  const escape = (byte: string): string => `\\x${byte.charCodeAt(0).toString(16).padStart(2, "0")}`;
  return { id: reply.toString("latin1").replace(/[^ -[\]-~]/g, escape), rawId: reply };
}

export type Held = Pick<Claimed, "key" | "rawId" | "token">;

export const ack = ({ key, rawId, token }: Held): Word[] => ["ZQ.ACK", key, rawId, `${token}`];

export interface Nack {
  /** The time in ms until the job is due again. By default, the queue's BACKOFF determines this time. */
  readonly delayMs?: number | undefined;
  readonly dead?: boolean;
  /** FREE: the attempt does not count. */
  readonly free?: boolean;
  /** HOLD: for how many milliseconds no job of this job's group can be claimed; 0 by default. */
  readonly holdMs?: number | undefined;
  readonly error?: string | undefined;
}

/** The server refuses a due time beyond 2^53 ms. A job with such a delay would not be reported. */
const LONGEST_MS = 2 ** 52;

export function nack({ key, rawId, token }: Held, { delayMs, dead, free, holdMs, error }: Nack): Word[] {
  const words: Word[] = ["ZQ.NACK", key, rawId, `${token}`];
  if (dead) words.push("DEAD");
  else if (delayMs !== undefined) words.push("DELAY", inMs(Math.min(delayMs, LONGEST_MS)));
  if (free) words.push("FREE");
  if (holdMs) words.push("HOLD", inMs(Math.min(holdMs, LONGEST_MS)));
  if (error !== undefined) words.push("ERROR", error);
  return words;
}

export const extend = (key: string, jobs: readonly Pick<Claimed, "rawId" | "token">[], leaseMs: number): Word[] => [
  "ZQ.EXTEND",
  key,
  inMs(leaseMs),
  ...jobs.flatMap(({ rawId, token }) => [rawId, `${token}`]),
];

/** Returns the new deadline of each of `count` jobs; null if the lease is lost. */
export function extended(reply: Reply, count: number): (number | null)[] {
  const deadlines = list(reply).map(integerOrNull);
  const isGood = (deadlineMs: number | null): boolean => deadlineMs === null || deadlineMs >= 1e12;
  if (deadlines.length !== count || !deadlines.every(isGood)) throw new ProtocolError(`expected ${count} deadlines, got ${deadlines}`);
  return deadlines;
}

/** Returns whether ZQ.ACK or ZQ.NACK of one job ended the claim; false if the token is stale. */
export function ended(reply: Reply): boolean {
  const count = integer(reply);
  if (count !== 0 && count !== 1) throw new ProtocolError(`expected 0 or 1, got ${count}`);
  return count === 1;
}
