/**
 * Counts the denied requests of a client, and blocks the client because of them: the options `ban`, `continueExceeding`
 * and `exponentialBackoff` of @fastify/rate-limit.
 *
 * The count of a key is in a Redis key of its own, which expires at the end of the block.
 */

import { connectionOf, type RedisClient } from "../connection.js";
import { PatientConnection } from "../limiter/patient.js";
import { type Duration, integer, integerOrNull, milliseconds } from "../values.js";

export interface StrikeOptions {
  /** After this number of denied requests, the client stays blocked for a whole window. -1: it does not. */
  readonly ban: number;
  /** Whether each denied request blocks the client for a whole window. */
  readonly continueExceeding: boolean;
  /** Whether each denied request blocks the client for twice as long as the one before it. */
  readonly exponentialBackoff: boolean;
}

export interface Strike {
  /** How many requests were denied since the client was last admitted after a block. */
  readonly count: number;
  readonly waitMs: number;
}

/** The longest block, in ms. */
const LONGEST_MS = 2 ** 45;

export class Strikes {
  readonly #redis: PatientConnection;

  constructor(
    client: RedisClient,
    private readonly prefix: string,
    private readonly options: StrikeOptions,
    timeout: Duration = "1s",
  ) {
    this.#redis = new PatientConnection(connectionOf(client), milliseconds(timeout));
  }

  /** Returns the strikes of a key if they block it; undefined if they do not. */
  async block(key: string): Promise<Strike | undefined> {
    const name = this.#name(key);
    const [count = 0, waitMs] = await Promise.all([
      this.#redis.send(name, ["GET", name]).then((reply) => integerOrNull(reply) ?? 0),
      this.#redis.send(name, ["PTTL", name]).then(integer),
    ]);
    const { ban, continueExceeding, exponentialBackoff } = this.options;
    const blocks = continueExceeding || exponentialBackoff ? count > 0 : ban >= 0 && count > ban;
    return blocks && waitMs > 0 ? { count, waitMs } : undefined;
  }

  /** Counts a denied request. `waitMs`: how long the limit itself denies the client. */
  async add(key: string, windowMs: number, waitMs: number): Promise<Strike> {
    const name = this.#name(key);
    const { ban, continueExceeding, exponentialBackoff } = this.options;
    const first = ["PEXPIRE", name, `${Math.ceil(windowMs)}`, "NX"];
    const count = integer((await this.#redis.transaction(name, [["INCR", name], first]))[0]);
    const lasts = continueExceeding || exponentialBackoff || count === ban + 1;
    if (!lasts) return { count, waitMs: ban >= 0 && count > ban ? Math.max(waitMs, integer(await this.#redis.send(name, ["PTTL", name]))) : waitMs };
    const blockMs = Math.ceil(exponentialBackoff ? Math.min(windowMs * 2 ** (count - 1), LONGEST_MS) : windowMs);
    await this.#redis.send(name, ["PEXPIRE", name, `${blockMs}`]);
    return { count, waitMs: Math.max(blockMs, waitMs) };
  }

  #name(key: string): string {
    return `${this.prefix}{${key}}:denied`;
  }
}
