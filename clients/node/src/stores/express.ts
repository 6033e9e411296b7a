/** A store for express-rate-limit, which is not imported. */

import type { RedisClient } from "../connection.js";
import type { Limiter } from "../limiter.js";
import { Counting, type StoreOptions } from "./counting.js";

/** What the middleware is configured with, as far as it matters here. */
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

/** Hits of a key that may yet be taken back. */
interface Recent {
  /** When their units become available again, the first one first. */
  readonly charged: number[];
  /** Denied requests, which took nothing, whose `decrement` will come. */
  denied: number;
}

/** More than anybody asks for in a window. */
const MANY = 1e15;

/** Keys whose hits may yet be taken back. The oldest one is forgotten first. */
const KEYS = 10_000;

/**
 * `rateLimit({ windowMs: 60_000, limit: 100, store: new ExpressStore(redis, "api") })`
 *
 * `increment` is not told the limit. If it is a number, the store has it from `init`. If it is a function, the store counts
 * all requests in windows that are aligned to the clock, as it cannot know which are denied.
 */
export class ExpressStore {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #counting: Counting;
  readonly #recent = new Map<string, Recent>();
  #settings: Settings | undefined;
  /** Counts what it does not limit. */
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
      // A denied request has failed, too.
      else if (skipFailedRequests) recent.denied += 1;
    }
    return { totalHits: hits, resetTime: new Date(Date.now() + waitMs) };
  }

  /**
   * Is not told when the hit was. It takes back the oldest hit of this process that still counts, so what remains counts for longer,
   * never for less long. A hit of another process it does not know.
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
