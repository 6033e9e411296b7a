/** Rate limits. */

import { setTimeout as sleep } from "node:timers/promises";
import { decoded } from "./boundary.js";
import { connectionOf, type RedisClient, type Reply } from "./connection.js";
import { asError, CostTooHigh, passes, ProtocolError, TimeoutError } from "./errors.js";
import { headers, type LimitState } from "./headers.js";
import { Ahead } from "./limiter/ahead.js";
import { Denials } from "./limiter/denials.js";
import { PatientConnection } from "./limiter/patient.js";
import { type Duration, integer, milliseconds } from "./values.js";
import * as wire from "./wire/limits.js";

export interface LimiterOptions {
  /**
   * When a unit becomes available again. `"sliding"` (default): one window after it was taken. `"fixed"`: at the end of
   * the window. `"leaky"`: units become available one by one, at a steady rate.
   */
  readonly algorithm?: wire.Algorithm;
  /** For `"sliding"`: the precision of the time at which a unit becomes available again. See ZRL.CHECK. */
  readonly precision?: "exact" | Duration;
  /** What `check` and `peek` do if Redis is away; `"raise"` by default. */
  readonly onError?: "raise" | "allow" | "deny";
  /** How long a call may take; by default one second. */
  readonly timeout?: Duration;
  /** The prefix of the Redis keys. The limiter's name in header fields has no prefix. */
  readonly prefix?: string;
  /**
   * The name of the units in RateLimit-Policy: `"requests"`, `"content-bytes"`, `"concurrent-requests"` or your own.
   */
  readonly unit?: string;
  /**
   * Whether the limiter remembers a denial until its `retryAfterMs` have passed; true by default. Until then, the
   * limiter denies calls for the same key that cost as much or more, without asking the server.
   */
  readonly remember?: boolean;
  /**
   * The most units to take ahead in one call. The limiter hands out these units later, without asking the server. A
   * hundredth of the window after the call, the limiter refunds the units that are left. `close()` refunds them at
   * once. If one limiter of a key has this option, all limiters of this key need it. For `"sliding"` only.
   */
  readonly ahead?: number;
}

export interface CheckOptions {
  /** How many units to take, by default 1. */
  readonly cost?: number;
  /** Whether to take the units even if they do not fit. Later calls are then denied until the debt is paid. */
  readonly force?: boolean;
}

export interface WaitOptions {
  /** How many units to take, by default 1. */
  readonly cost?: number;
  /** The longest time to wait; by default without limit. */
  readonly timeout?: Duration;
  /** Ends the wait: `wait` throws the reason of the signal. */
  readonly signal?: AbortSignal;
}

/** The longest timer of Node.js. A longer timer would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** If Redis is away, `wait` checks again after this time. */
const AWAY_MS = 100;

/** The decision of a limit. Times are in milliseconds. */
export class Check {
  readonly allowed: boolean;
  readonly limit: number;
  /** Units that are free after this call, at least 0. */
  readonly remaining: number;
  /** Units in use beyond the limit, taken by `force`. Later calls are denied until this debt is paid. */
  readonly debt: number;
  /**
   * After this time, the same call succeeds, unless other callers take units. 0: the call was allowed. -1: the call
   * costs more than the limit, and never succeeds.
   */
  readonly retryAfterMs: number;
  /** The time until all units are free. */
  readonly resetAfterMs: number;
  /** Unix time at which the units of this call become available again; 0 if none were taken. */
  readonly chargedUntilMs: number;

  constructor(
    fields: wire.Fields,
    private readonly of: Pick<Limiter, "name" | "limit" | "windowMs"> & { readonly unit?: string | undefined },
    /** The error, if Redis was away. In this case, `onError` sets `allowed`, and all numbers except `limit` are 0. */
    readonly error?: Error,
  ) {
    this.allowed = fields.allowed;
    this.limit = fields.limit;
    this.remaining = Math.max(fields.remaining, 0);
    this.debt = Math.max(-fields.remaining, 0);
    this.retryAfterMs = fields.retryAfterMs;
    this.resetAfterMs = fields.resetAfterMs;
    this.chargedUntilMs = fields.chargedUntilMs;
  }

  /** Returns the fields RateLimit-Policy and RateLimit and, if the call was denied, Retry-After. */
  headers(): Record<string, string> {
    return headers([this.state()]);
  }

  /** @internal */
  state(): LimitState {
    const { name, limit, windowMs, unit } = this.of;
    if (this.error) return { name, limit, windowMs, unit };
    const isDenied = this.retryAfterMs > 0;
    const waitMs = isDenied ? this.retryAfterMs : this.resetAfterMs;
    return { name, limit, windowMs, unit, remaining: this.remaining, waitMs, isDenied, isHopeless: this.retryAfterMs < 0 };
  }
}

/** The decision of several limits together. */
export class Checks {
  constructor(
    /** Whether units were taken from all limits. If not, units were taken from none. */
    readonly allowed: boolean,
    /** The decision of each limit. `allowed` is true if the limit alone would have allowed the call. */
    readonly checks: readonly Check[],
    readonly error?: Error,
  ) {}

  /** The longest wait of the limits that deny. -1: the call never succeeds. */
  get retryAfterMs(): number {
    const waits = this.checks.map((check) => check.retryAfterMs);
    return this.allowed ? 0 : waits.some((wait) => wait < 0) ? -1 : Math.max(0, ...waits);
  }

  headers(): Record<string, string> {
    return headers(this.checks.map((check) => check.state()));
  }
}

/**
 * A rate limit for each key: `new Limiter(redis, "search", "5/1m")`. The limit of the key `ann` is in the Redis key
 * `search:ann`.
 */
export class Limiter {
  readonly limit: number;
  readonly windowMs: number;
  readonly unit: string | undefined;
  readonly #prefix: string;
  readonly #ahead: Ahead | undefined;
  /** @internal */
  readonly denials: Denials;
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
    { algorithm, precision, onError = "raise", timeout = "1s", prefix = "", unit, remember = true, ahead }: LimiterOptions = {},
  ) {
    for (const text of unit === undefined ? [name] : [name, unit]) {
      if (!/^[ -~]+$/.test(text)) throw new RangeError(`name and unit go into header fields: printable ASCII only, not ${text}`);
    }
    const policy = wire.policy(rate, algorithm, precision);
    this.limit = policy.limit;
    this.windowMs = policy.windowMs;
    const connection = connectionOf(client);
    this.redis = new PatientConnection(connection, milliseconds(timeout));
    // The window is longer by the hold, and by 1 ms, which is the resolution of the server's clock.
    const holdMs = ahead === undefined ? 0 : Math.floor(policy.windowMs / 100);
    this.policy = ahead === undefined ? policy : { ...policy, windowMs: policy.windowMs + holdMs + 1 };
    if (ahead !== undefined) {
      if (!Number.isSafeInteger(ahead) || ahead < 1) throw new RangeError(`ahead is 1 unit or more, not ${ahead}`);
      if (policy.algorithm !== "sliding" || holdMs < 1) {
        throw new RangeError("units are taken ahead from sliding limits whose window is 100 ms or longer");
      }
      if (!remember) throw new RangeError("a limiter that takes units ahead remembers denials");
      if (!connection.canSendOnce) throw new TypeError("for units ahead use ioredis: node-redis repeats commands where there is a Sentinel");
      this.#ahead = new Ahead(ahead, this.limit, holdMs, {
        take: async (key, units, onLate) => this.#send(this.take(key, units), {}, (reply) => onLate(wire.checked(reply))),
        refund: (key, units, chargedUntilMs) => this.refund(key, units, chargedUntilMs),
        denied: (key, cost, fields) => this.denials.add(key, cost, fields, this.denials.forgotten),
      });
    }
    this.onError = onError;
    this.unit = unit;
    this.#prefix = prefix;
    // Remembers a denial for one hold at most: other limiters refund units at the end of their hold, so units may be
    // free before the wait of the denial is over.
    this.denials = new Denials(!remember ? 0 : ahead === undefined ? Infinity : holdMs);
  }

  /** Takes `cost` units if that many are free. Otherwise, takes none. */
  async check(key: string, { cost = 1, force = false }: CheckOptions = {}): Promise<Check> {
    if (force || cost === 0) return this.#ask(key, cost, { force });
    this.#fits(cost);
    const known = this.#ahead?.take(key, cost) ?? this.denials.get(key, cost);
    if (known) return new Check(known, this);
    return this.#ahead ? this.#answered(this.redis.within(this.#ahead.ask(key, cost))) : this.#ask(key, cost);
  }

  /**
   * Takes units as soon as they fit. If the wait would be longer than `timeout`, throws a {@link TimeoutError} at once,
   * and takes no units. From the second denial on, adds a random time to the wait, so that waiting callers do not ask
   * at the same moment.
   */
  async wait(key: string, { cost = 1, timeout, signal }: WaitOptions = {}): Promise<Check> {
    const endMs = timeout === undefined ? Infinity : performance.now() + milliseconds(timeout);
    for (let denials = 0; ; denials++) {
      signal?.throwIfAborted();
      const check = await this.check(key, { cost });
      if (check.allowed) return check;
      const waitMs = check.error ? AWAY_MS : check.retryAfterMs;
      const leftMs = endMs - performance.now();
      if (waitMs > leftMs) {
        throw new TimeoutError(`${this.name} does not allow ${cost} units for ${key} in time`, { cause: check.error });
      }
      const othersMs = Math.min((denials * this.windowMs) / this.limit, this.windowMs / 10);
      const pauseMs = Math.min(waitMs + Math.random() * othersMs, leftMs, LONGEST_MS);
      await sleep(pauseMs, undefined, { ...(signal && { signal }) }).catch(() => signal?.throwIfAborted());
    }
  }

  /** Returns what `check` would return, and takes no units. Asks the server even if a denial is remembered. */
  async peek(key: string, { cost = 1 }: Pick<CheckOptions, "cost"> = {}): Promise<Check> {
    this.#fits(cost);
    const held = this.#ahead?.take(key, cost, true);
    return held ? new Check(held, this) : this.#ask(key, cost, { peek: true });
  }

  /** Refunds units that `check` took. Returns how many of them were still in use. */
  async refund(key: string, units: number, check: Pick<Check, "chargedUntilMs"> | number): Promise<number> {
    const chargedUntilMs = typeof check === "number" ? check : check.chargedUntilMs;
    if (chargedUntilMs === 0) return 0;
    return this.#mend(key, (name) => this.redis.send(name, wire.refund(name, units, chargedUntilMs)));
  }

  /** Deletes the limit of the key, so that all units are available. Returns whether the limit existed. */
  async reset(key: string): Promise<boolean> {
    this.#ahead?.drop(key);
    return (await this.#mend(key, (name) => this.redis.send(name, ["DEL", name]))) === 1;
  }

  /** Refunds the units that were taken ahead. Call it before you close the client. */
  async close(): Promise<void> {
    await this.#ahead?.close();
  }

  /**
   * Sends a command that may make units available. Forgets the denial of the key, even after an error: the server may
   * have carried out the command.
   */
  async #mend(key: string, send: (name: string) => Promise<Reply>): Promise<number> {
    try {
      return integer(await send(this.key(key)));
    } finally {
      this.denials.forget(key);
    }
  }

  async #ask(key: string, cost: number, how: wire.HowToTake = {}): Promise<Check> {
    const { forgotten } = this.denials;
    const fields = this.#send(this.take(key, cost, how), how);
    if (!how.peek) fields.then((reply) => this.denials.add(key, cost, reply, forgotten), () => undefined);
    return this.#answered(fields);
  }

  async #send(take: wire.Take, how: wire.HowToTake, onLate?: (reply: Reply) => void): Promise<wire.Fields> {
    const reply = await this.redis.send(take.key, wire.check(take, how), onLate);
    return decoded(() => wire.checked(reply));
  }

  async #answered(fields: Promise<wire.Fields>): Promise<Check> {
    try {
      return new Check(await fields, this);
    } catch (thrown) {
      return this.away(asError(thrown), this.onError);
    }
  }

  #fits(cost: number): void {
    if (cost > this.limit) throw new CostTooHigh(cost, this.limit);
    if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError(`cost must be a whole number, not ${cost}`);
  }

  /** @internal Returns the Redis key of a key's limit. */
  key(key: string): string {
    return `${this.#prefix}${this.name}:${key}`;
  }

  /** @internal Returns what to take. Throws an error if the cost is above the limit, unless `force` is set. */
  take(key: string, cost: number, { force = false }: wire.HowToTake = {}): wire.Take {
    if (!force) this.#fits(cost);
    return { key: this.key(key), policy: this.policy, cost };
  }

  /** @internal If Redis is away, decides as `onError` says. Rethrows a permanent error. */
  away(error: Error, onError: "raise" | "allow" | "deny"): Check {
    if (onError === "raise" || !passes(error)) throw error;
    const nothing = { limit: this.limit, remaining: 0, retryAfterMs: 0, resetAfterMs: 0, chargedUntilMs: 0 };
    return new Check({ allowed: onError === "allow", ...nothing }, this, error);
  }
}

export type Ask = readonly [limiter: Limiter, key: string, cost?: number];

/**
 * Takes units from several limits: `checkAll([perSecond, "ann"], [perDay, "ann", 5])`. If one limit denies, takes no
 * units. If Redis is away, the strictest `onError` of the limiters decides. In a cluster, the keys must share a slot:
 * `"{ann}"`.
 */
export async function checkAll(...asks: readonly Ask[]): Promise<Checks> {
  const [first] = asks;
  if (!first) throw new RangeError("no limit to check");
  const [{ client, redis }] = first;
  if (asks.some(([limiter]) => limiter.client !== client)) throw new TypeError("limits of one call need one client");
  const takes = asks.map(([limiter, key, cost = 1]) => limiter.take(key, cost));
  const call = takes.map(({ key, cost }) => `${cost} ${key}`).join("\n");
  for (const [{ denials }, key] of asks) {
    const known = denials.among(key, call);
    if (known) return new Checks(false, asks.map(([limiter], at) => new Check(known[at] ?? missing(), limiter)));
  }
  const sent = asks.map(([{ denials }]) => denials.forgotten);
  try {
    const reply = await redis.send(takes[0]?.key ?? "", wire.checkAll(takes));
    const { allowed, limits } = decoded(() => wire.checkedAll(reply));
    const checks = asks.map(([limiter, key, cost = 1], at) => {
      const fields = limits[at] ?? missing();
      limiter.denials.add(key, cost, fields, sent[at] ?? 0, { call, limits });
      return new Check(fields, limiter);
    });
    return new Checks(allowed, checks);
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
  throw new ProtocolError("the server answered fewer limits than it was asked for");
}
