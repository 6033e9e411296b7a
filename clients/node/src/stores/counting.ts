/**
 * Limits for frameworks that count requests as hits, and compare the number of hits with their own limit.
 *
 * A denied request takes no unit, so a client does not lock itself out by retrying. The framework sees a denied request
 * as one hit above the limit.
 */

import type { RedisClient } from "../connection.js";
import { type Check, Limiter, type LimiterOptions } from "../limiter.js";

export type StoreOptions = Pick<LimiterOptions, "algorithm" | "precision" | "prefix" | "remember" | "timeout">;

export interface Hits {
  readonly hits: number;
  /** After a denial, the time until a retry can succeed. Otherwise, the time until all units are available. */
  readonly waitMs: number;
  readonly check?: Check;
}

/** Limiters, one for each policy. The framework passes the policy with each request. */
export class Counting {
  readonly #limiters = new Map<string, Limiter>();

  constructor(
    readonly client: RedisClient,
    readonly name: string,
    readonly options: StoreOptions = {},
  ) {}

  async hit(key: string, limit: number, windowMs: number): Promise<Hits> {
    return limit < 1 ? { hits: 1, waitMs: windowMs } : hitsOf(await this.of(limit, windowMs).check(key));
  }

  async look(key: string, limit: number, windowMs: number): Promise<Hits> {
    if (limit < 1) return { hits: 0, waitMs: 0 };
    const check = await this.of(limit, windowMs).peek(key, { cost: 0 });
    return { hits: limit - check.remaining + check.debt, waitMs: check.resetAfterMs, check };
  }

  of(limit: number, windowMs: number): Limiter {
    const rate = `${Math.floor(limit)}/${Math.ceil(windowMs)}ms`;
    let limiter = this.#limiters.get(rate);
    if (!limiter) this.#limiters.set(rate, (limiter = new Limiter(this.client, this.name, rate, this.options)));
    return limiter;
  }
}

function hitsOf(check: Check): Hits {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs } = check;
  return { hits: allowed ? limit - remaining : limit + 1, waitMs: allowed ? resetAfterMs : retryAfterMs, check };
}
