/** Rate limits. */

import { type Connection, connectionOf, type RedisClient, type Reply } from "./connection.js";
import { asError, CostTooHigh, passes, TimeoutError } from "./errors.js";
import { headers, type Told } from "./headers.js";
import { type Duration, integer, milliseconds } from "./values.js";
import * as wire from "./wire/limits.js";

export interface LimiterOptions {
  /** When a unit comes back: one window after it was taken (default), at the window's end, or evenly spaced. */
  readonly algorithm?: wire.Algorithm;
  /** `"sliding"` only: how finely the return of a unit is timed, see ZRL.CHECK. */
  readonly precision?: "exact" | Duration;
  /** What `check` and `peek` do when Redis is away. */
  readonly onError?: "raise" | "allow" | "deny";
  /** How long to wait for Redis, by default a second. */
  readonly timeout?: Duration;
}

export interface CheckOptions {
  /** How many units to take, by default 1. */
  readonly cost?: number;
  /** Take them even if they do not fit: later calls wait until the debt is paid. */
  readonly force?: boolean;
}

/** What a limit answered. Times are in milliseconds. */
export class Check {
  readonly allowed: boolean;
  readonly limit: number;
  /** Units that are free after this call. */
  readonly remaining: number;
  /** The same call succeeds after that long if nobody else takes units; 0 if it was allowed; -1: never, it costs too much. */
  readonly retryAfterMs: number;
  /** Until all units are free. */
  readonly resetAfterMs: number;
  /** Unix time at which the units of this call come back; 0 if none were taken. */
  readonly chargedUntilMs: number;

  constructor(
    fields: wire.Fields,
    private readonly of: Pick<Limiter, "name" | "limit" | "windowMs">,
    /** Why Redis was away; then `allowed` is what `onError` says, and the numbers mean nothing. */
    readonly error?: Error,
  ) {
    this.allowed = fields.allowed;
    this.limit = fields.limit;
    this.remaining = fields.remaining;
    this.retryAfterMs = fields.retryAfterMs;
    this.resetAfterMs = fields.resetAfterMs;
    this.chargedUntilMs = fields.chargedUntilMs;
  }

  /** RateLimit-Policy, RateLimit and, if denied, Retry-After. */
  headers(): Record<string, string> {
    return headers([this.told()], this.retryAfterMs);
  }

  /** @internal */
  told(): Told {
    const { name, limit, windowMs } = this.of;
    if (this.error) return { name, limit, windowMs };
    const waitMs = this.retryAfterMs > 0 ? this.retryAfterMs : this.resetAfterMs;
    return { name, limit, windowMs, remaining: this.remaining, waitMs };
  }
}

/** What several limits answered together. */
export class Checks {
  constructor(
    /** Whether units were taken: from all limits, or from none. */
    readonly allowed: boolean,
    /** One for each limit; `allowed` is whether that limit alone would have allowed it. */
    readonly checks: readonly Check[],
    readonly error?: Error,
  ) {}

  /** The longest wait of those limits that deny. */
  get retryAfterMs(): number {
    return this.allowed ? 0 : Math.max(0, ...this.checks.map((check) => check.retryAfterMs));
  }

  headers(): Record<string, string> {
    return headers(this.checks.map((check) => check.told()), this.retryAfterMs);
  }
}

/** One policy for many keys: `new Limiter(redis, "search", "5/1m")`. The limit of `ann` is the Redis key `search:ann`. */
export class Limiter {
  readonly limit: number;
  readonly windowMs: number;
  /** @internal */
  readonly policy: wire.Policy;
  /** @internal */
  readonly redis: PatientConnection;
  /** @internal */
  readonly onError: "raise" | "allow" | "deny";

  constructor(
    readonly client: RedisClient,
    readonly name: string,
    rate: string,
    { algorithm, precision, onError = "raise", timeout = 1000 }: LimiterOptions = {},
  ) {
    if (!/^[ -~]+$/.test(name)) throw new RangeError(`the name goes into header fields: printable ASCII only, not ${name}`);
    this.policy = wire.policy(rate, algorithm, precision);
    this.limit = this.policy.limit;
    this.windowMs = this.policy.windowMs;
    this.redis = new PatientConnection(connectionOf(client), milliseconds(timeout));
    this.onError = onError;
  }

  /** Takes units if they fit. */
  async check(key: string, options: CheckOptions = {}): Promise<Check> {
    return this.#ask(key, options, { force: options.force ?? false });
  }

  /** What `check` would answer; takes nothing. */
  async peek(key: string, { cost }: Pick<CheckOptions, "cost"> = {}): Promise<Check> {
    return this.#ask(key, cost === undefined ? {} : { cost }, { peek: true });
  }

  /** Gives back units that this check took, and answers how many were still held. */
  async refund(key: string, units: number, check: Pick<Check, "chargedUntilMs"> | number): Promise<number> {
    const chargedUntilMs = typeof check === "number" ? check : check.chargedUntilMs;
    if (chargedUntilMs === 0) return 0;
    const name = this.key(key);
    return integer(await this.redis.send(name, wire.refund(name, units, chargedUntilMs)));
  }

  /** Forgets what was taken. */
  async reset(key: string): Promise<boolean> {
    const name = this.key(key);
    return integer(await this.redis.send(name, ["DEL", name])) === 1;
  }

  async #ask(key: string, { cost = 1 }: CheckOptions, how: wire.HowToTake): Promise<Check> {
    const take = this.take(key, cost, how);
    try {
      return new Check(wire.checked(await this.redis.send(take.key, wire.check(take, how))), this);
    } catch (thrown) {
      return this.away(asError(thrown), this.onError);
    }
  }

  /** @internal The Redis key of that name's limit. */
  key(key: string): string {
    return `${this.name}:${key}`;
  }

  /** @internal A debt may be larger than the limit, a cost may not. */
  take(key: string, cost: number, { force = false }: wire.HowToTake = {}): wire.Take {
    if (cost > this.limit && !force) throw new CostTooHigh(cost, this.limit);
    return { key: this.key(key), policy: this.policy, cost };
  }

  /** @internal Rethrows what does not pass by itself. */
  away(error: Error, onError: "raise" | "allow" | "deny"): Check {
    if (onError === "raise" || !passes(error)) throw error;
    const nothing = { limit: this.limit, remaining: 0, retryAfterMs: 0, resetAfterMs: 0, chargedUntilMs: 0 };
    return new Check({ allowed: onError === "allow", ...nothing }, this, error);
  }
}

/** A limiter, its key, and what this call costs there. */
export type Ask = readonly [limiter: Limiter, key: string, cost?: number];

/**
 * Takes units from several limits, or from none: `checkAll([perSecond, "ann"], [perDay, "ann", 5])`. When Redis is away, the strictest
 * `onError` of them decides. In a cluster the keys must share a slot: `"{ann}"`.
 */
export async function checkAll(...asks: readonly Ask[]): Promise<Checks> {
  const [first] = asks;
  if (!first) throw new RangeError("no limit to check");
  const [{ client, redis }] = first;
  if (asks.some(([limiter]) => limiter.client !== client)) throw new TypeError("limits of one call need one client");
  const takes = asks.map(([limiter, key, cost = 1]) => limiter.take(key, cost));
  try {
    const { allowed, limits } = wire.checkedAll(await redis.send(takes[0]?.key ?? "", wire.checkAll(takes)));
    return new Checks(
      allowed,
      asks.map(([limiter], at) => new Check(limits[at] ?? missing(), limiter)),
    );
  } catch (thrown) {
    const error = asError(thrown);
    const says = asks.map(([limiter]) => limiter.onError);
    const onError = says.includes("raise") ? "raise" : says.includes("deny") ? "deny" : "allow";
    return new Checks(
      onError === "allow",
      asks.map(([limiter]) => limiter.away(error, onError)),
      error,
    );
  }
}

function missing(): never {
  throw new TypeError("the server answered fewer limits than it was asked for");
}

/**
 * Waits for Redis so long and no longer. The clients would queue commands while there is no connection, and send them
 * afterwards: a service that lets requests through without their limits would pile them up.
 */
class PatientConnection {
  constructor(
    private readonly connection: Connection,
    private readonly patienceMs: number,
  ) {}

  async send(key: string, words: readonly (string | Buffer)[]): Promise<Reply> {
    const end = performance.now() + this.patienceMs;
    while (!this.connection.isReady()) {
      const left = end - performance.now();
      if (left <= 0) throw new TimeoutError(`no connection to Redis for ${this.patienceMs} ms`);
      await nextLook(Math.min(left, 10));
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new TimeoutError(`no reply within ${this.patienceMs} ms`)), end - performance.now());
    });
    try {
      return await Promise.race([this.connection.send(key, words), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** One timer for all who look whether the connection is back. */
let look: Promise<void> | undefined;
function nextLook(ms: number): Promise<void> {
  look ??= new Promise((resolve) =>
    setTimeout(() => {
      look = undefined;
      resolve();
    }, Math.max(1, ms)),
  );
  return look;
}
