/** A storage for @nestjs/throttler. This file does not import that package. */

import { connectionOf, type RedisClient } from "../connection.js";
import { integer, milliseconds } from "../values.js";
import { Denials } from "../limiter/denials.js";
import { PatientConnection } from "../limiter/patient.js";
import { Counting, type StoreOptions } from "./counting.js";

interface ThrottlerRecord {
  readonly totalHits: number;
  /** Seconds. */
  readonly timeToExpire: number;
  readonly isBlocked: boolean;
  /** Seconds. */
  readonly timeToBlockExpire: number;
}

/**
 * `ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 100 }], storage: new NestStorage(redis) })`
 *
 * A request above the limit starts a block of `blockDuration`, which is the `ttl` by default. With `blockDuration: 0`,
 * a client is admitted again as soon as units are available. An admitted request counts towards the limit until its
 * `ttl` ends, even if a block ends earlier.
 */
export class NestStorage {
  readonly #counting: Counting;
  readonly #redis: PatientConnection;
  readonly #blocks = new Denials(Infinity);

  constructor(client: RedisClient, name = "throttler", options: StoreOptions = {}) {
    this.#counting = new Counting(client, name, options);
    this.#redis = new PatientConnection(connectionOf(client), milliseconds(options.timeout ?? "1s"));
  }

  async increment(key: string, ttl: number, limit: number, blockDuration: number): Promise<ThrottlerRecord> {
    // The hash tag puts both keys into one slot.
    const name = `{${key}}`;
    const block = `${this.#counting.options.prefix ?? ""}${this.#counting.name}:${name}:blocked`;
    const known = this.#blocks.get(name, 1);
    if (known) return record(limit + 1, known.resetAfterMs, known.retryAfterMs);
    const blocks = blockDuration > 0;
    const { forgotten } = this.#blocks;
    const [left, { hits, waitMs, check }] = await Promise.all([
      blocks ? this.#redis.send(block, ["PTTL", block]).then(integer) : 0,
      this.#counting.hit(name, limit, ttl),
    ]);
    const resetMs = check?.resetAfterMs ?? ttl;
    if (hits <= limit && left <= 0) return record(hits, resetMs, 0);
    // Units are available, but the client is still blocked. So this refunds the unit.
    if (hits <= limit && check) await this.#counting.of(limit, ttl).refund(name, 1, check);
    if (blocks && left <= 0) await this.#redis.send(block, ["SET", block, "1", "PX", `${Math.ceil(blockDuration)}`, "NX"]);
    const blockedMs = Math.max(hits <= limit ? 0 : waitMs, left > 0 ? left : blockDuration);
    const fields = { allowed: false, limit, remaining: 0, chargedUntilMs: 0, retryAfterMs: blockedMs, resetAfterMs: resetMs };
    if (this.#counting.options.remember !== false) this.#blocks.add(name, 1, fields, forgotten);
    return record(limit + 1, resetMs, blockedMs);
  }
}

const record = (totalHits: number, resetMs: number, blockedMs: number): ThrottlerRecord => ({
  totalHits,
  timeToExpire: Math.ceil(resetMs / 1000),
  isBlocked: blockedMs > 0,
  timeToBlockExpire: Math.ceil(blockedMs / 1000),
});
