/** What workers send: ZQ.CLAIM, ACK, NACK, EXTEND. Pure. */

import type { Reply, Word } from "../connection.js";
import { duration, integer, integerOrNull, list, text } from "../values.js";
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
  const words = ["ZQ.CLAIM", `${queues.length}`, ...queues, "LEASE", duration(leaseMs), "COUNT", `${count}`, "AS", worker];
  if (blockMs !== undefined) words.push("BLOCK", duration(blockMs));
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
  readonly error?: string | undefined;
}

export function nack({ queue, id, token }: Held, { delayMs, dead, free, error }: Nack): Word[] {
  const words: Word[] = ["ZQ.NACK", queue, id, `${token}`];
  if (dead) words.push("DEAD");
  else if (delayMs !== undefined) words.push("DELAY", duration(delayMs));
  if (free) words.push("FREE");
  if (error !== undefined) words.push("ERROR", error);
  return words;
}

export const extend = ({ queue, id, token }: Held, leaseMs: number): Word[] => ["ZQ.EXTEND", queue, id, `${token}`, duration(leaseMs)];

/** The new deadline; null: the lease is lost. */
export const extended = (reply: Reply): number | null => integerOrNull(reply);
