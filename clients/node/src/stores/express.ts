/** A store for the package express-rate-limit. This file does not import the package. */

import type { RedisClient } from "../connection.js";
import type { Limiter } from "../limiter.js";
import { Counting, type StoreOptions } from "./counting.js";

/** The settings that the store reads from the middleware. */
interface Settings {
  readonly windowMs: number;
  readonly limit: unknown;
  readonly skipFailedRequests?: boolean;
  readonly skipSuccessfulRequests?: boolean;
}

interface Info {
  readonly totalHits: number;
  readonly resetTime: Date;
}

/** The hits of a key, remembered for `decrement`. */
interface Recent {
  /** When the unit of each allowed hit becomes available again, soonest first. */
  readonly charged: number[];
  /** How many denied hits `decrement` has not taken back yet. A denied hit took no units. */
  denied: number;
}

const MANY = 1e15;

/**
 * The maximum number of keys whose hits the store remembers for `decrement`. If there are more keys, the store forgets
 * the key whose last hit is the oldest.
 */
const KEYS = 10_000;

/**
 * `rateLimit({ windowMs: 60_000, limit: 100, store: new ExpressStore(redis, "api") })`
 *
 * If the limit is a number, the store gets it from `init`. If the limit is a function, the store does not know which
 * requests are denied. It then counts all requests, in windows that are aligned to the clock.
 */
export class ExpressStore {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #counting: Counting;
  readonly #recent = new Map<string, Recent>();
  #settings: Settings | undefined;
  /** The limiter for a limit that is a function. It counts all requests. */
  #all: Limiter | undefined;

  constructor(client: RedisClient, name: string, options: StoreOptions = {}) {
    this.#counting = new Counting(client, name, options);
    this.prefix = `${options.prefix ?? ""}${name}:`;
  }

  init(settings: Settings): void {
    this.#settings = settings;
    if (typeof settings.limit === "number") return;
    const { client, name, options } = this.#counting;
    this.#all = new Counting(client, name, { ...options, algorithm: "fixed" }).of(MANY, settings.windowMs);
  }

  async increment(key: string): Promise<Info> {
    const { windowMs, limit, skipFailedRequests, skipSuccessfulRequests } = this.#initialized();
    const { hits, waitMs, check } = this.#all ? counted(await this.#all.check(key)) : await this.#counting.hit(key, limit as number, windowMs);
    if (skipFailedRequests || skipSuccessfulRequests) {
      const recent = this.#recent.get(key) ?? { charged: [], denied: 0 };
      this.#recent.delete(key);
      if (this.#recent.size >= KEYS) this.#recent.delete(this.#recent.keys().next().value as string);
      this.#recent.set(key, recent);
      while ((recent.charged[0] ?? Infinity) <= Date.now()) recent.charged.shift();
      if (check?.allowed) recent.charged.push(check.chargedUntilMs);
      // The middleware counts a denied request as failed.
      else if (skipFailedRequests) recent.denied += 1;
    }
    return { totalHits: hits, resetTime: new Date(Date.now() + waitMs) };
  }

  /**
   * Takes back a hit of the key. The middleware does not say which hit. If the store remembers a denied hit, it forgets
   * that hit. If it remembers none, it refunds the oldest hit. If the middleware meant a newer hit, a unit stays taken
   * for too long.
   */
  async decrement(key: string): Promise<void> {
    const recent = this.#recent.get(key);
    if (!recent) return;
    if (recent.denied > 0) recent.denied -= 1;
    else {
      const chargedUntilMs = recent.charged.shift();
      if (chargedUntilMs !== undefined) await this.#limiter()?.refund(key, 1, chargedUntilMs);
    }
    if (recent.charged.length === 0 && recent.denied === 0) this.#recent.delete(key);
  }

  async get(key: string): Promise<Info | undefined> {
    const { windowMs, limit } = this.#initialized();
    const seen = this.#all ? counted(await this.#all.peek(key, { cost: 0 })) : await this.#counting.look(key, limit as number, windowMs);
    return seen.hits === 0 ? undefined : { totalHits: seen.hits, resetTime: new Date(Date.now() + seen.waitMs) };
  }

  async resetKey(key: string): Promise<void> {
    this.#recent.delete(key);
    await this.#limiter()?.reset(key);
  }

  #limiter(): Limiter | undefined {
    const { windowMs, limit } = this.#initialized();
    return this.#all ?? ((limit as number) < 1 ? undefined : this.#counting.of(limit as number, windowMs));
  }

  #initialized(): Settings {
    if (!this.#settings) throw new TypeError("the store belongs to no rateLimit() yet");
    return this.#settings;
  }
}

const counted = (check: Awaited<ReturnType<Limiter["check"]>>) => ({
  hits: check.limit - check.remaining,
  waitMs: check.resetAfterMs,
  check,
});
