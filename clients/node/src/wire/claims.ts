/** What workers send: ZQ.CLAIM, ACK, NACK, EXTEND. Pure. */

import type { Reply, Word } from "../connection.js";
import { ProtocolError } from "../errors.js";
import { inMs, integer, integerOrNull, list, text } from "../values.js";
import { bytes } from "./queues.js";

/** A job as ZQ.CLAIM answers it. The token has 51 bits: the time in microseconds. */
export interface Claimed {
  readonly queue: string;
  readonly id: string;
  readonly token: number;
  readonly attempt: number;
  readonly deadlineMs: number;
  readonly raw: Buffer;
}

export interface Claim {
  readonly queues: readonly string[];
  readonly leaseMs: number;
  readonly count: number;
  /** How long to wait for a job; not at all by default. */
  readonly blockMs?: number;
  readonly worker: string;
}

export function claim({ queues, leaseMs, count, blockMs, worker }: Claim): Word[] {
  const words = ["ZQ.CLAIM", `${queues.length}`, ...queues, "LEASE", inMs(leaseMs), "COUNT", `${count}`, "AS", worker];
  if (blockMs !== undefined) words.push("BLOCK", inMs(blockMs));
  return words;
}

export function claimed(reply: Reply): Claimed[] {
  return list(reply).map((row) => {
    const [queue, id, token, attempt, deadlineMs, payload] = list(row);
    return {
      queue: text(queue),
      id: text(id),
      token: integer(token),
      attempt: integer(attempt),
      deadlineMs: integer(deadlineMs),
      raw: bytes(payload),
    };
  });
}

/** What names a claim. */
export type Held = Pick<Claimed, "queue" | "id" | "token">;

export const ack = ({ queue, id, token }: Held): Word[] => ["ZQ.ACK", queue, id, `${token}`];

export interface Nack {
  /** When it is due again; the queue's BACKOFF by default. */
  readonly delayMs?: number | undefined;
  readonly dead?: boolean;
  /** This attempt does not count. */
  readonly free?: boolean;
  /** No job of its group is claimed for that long; nothing by default. */
  readonly holdMs?: number | undefined;
  readonly error?: string | undefined;
}

export function nack({ queue, id, token }: Held, { delayMs, dead, free, holdMs, error }: Nack): Word[] {
  const words: Word[] = ["ZQ.NACK", queue, id, `${token}`];
  if (dead) words.push("DEAD");
  else if (delayMs !== undefined) words.push("DELAY", inMs(delayMs));
  if (free) words.push("FREE");
  if (holdMs) words.push("HOLD", inMs(holdMs));
  if (error !== undefined) words.push("ERROR", error);
  return words;
}

/** One heartbeat for jobs of a queue. */
export const extend = (queue: string, jobs: readonly Pick<Claimed, "id" | "token">[], leaseMs: number): Word[] => [
  "ZQ.EXTEND",
  queue,
  inMs(leaseMs),
  ...jobs.flatMap(({ id, token }) => [id, `${token}`]),
];

/** The new deadline of each of `count` jobs; null: the lease is lost. */
export function extended(reply: Reply, count: number): (number | null)[] {
  const deadlines = list(reply).map(integerOrNull);
  const isGood = (deadlineMs: number | null): boolean => deadlineMs === null || deadlineMs >= 1e12;
  if (deadlines.length !== count || !deadlines.every(isGood)) throw new ProtocolError(`expected ${count} deadlines, got ${deadlines}`);
  return deadlines;
}

/** Whether ZQ.ACK or ZQ.NACK of one job ended the claim; false: the token is stale. */
export function ended(reply: Reply): boolean {
  const count = integer(reply);
  if (count !== 0 && count !== 1) throw new ProtocolError(`expected 0 or 1, got ${count}`);
  return count === 1;
}
