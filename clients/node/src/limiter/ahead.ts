/**
 * Units ahead: a limiter takes many units in one call, and hands them out without asking the server.
 *
 * The limiter hands out the units of a call only for a short time, the hold. The hold begins when the limiter sends the
 * call. The server counts all units of the call at once, but the limiter hands some out only at the end of the hold. So
 * the limiter adds the hold to the window that it sends to the server.
 *
 * At most one call is in flight for a key. A call takes units for the callers that wait, and units to hold. If the held
 * units were used up during the hold, the next call takes twice as many. If some are left at the end of the hold, the
 * limiter refunds them, and the next call takes as many as were used.
 */

import { asError } from "../errors.js";
import type { Fields } from "../wire/limits.js";
import { now } from "./clock.js";

/** The most keys for which a limiter takes units in advance. */
const MAX_KEYS = 10_000;

/** The methods of a limiter that `Ahead` calls. */
export interface Source {
  /** Asks the server for `units`. If the reply comes after the call has timed out, `onLate` gets it. */
  take(key: string, units: number, onLate: (fields: Fields) => void): Promise<Fields>;
  refund(key: string, units: number, chargedUntilMs: number): Promise<unknown>;
  denied(key: string, cost: number, fields: Fields): void;
}

interface Waiter {
  readonly cost: number;
  readonly resolve: (fields: Fields) => void;
  readonly reject: (error: Error) => void;
}

/** The held units of a key. */
class Stock {
  left = 0;
  /** Units handed out since the last call to the server or the last `#sweep`. */
  used = 0;
  /** How many units the next call should take. */
  want = 0;
  /** When the limiter stops handing out the units that it took in advance. */
  deadlineMs = 0;
  /** When `#sweep` refunds the unused units. */
  sweepAtMs = 0;
  /** The reply to the latest call that was allowed. `repliedMs` is the time of this reply. */
  reply: Fields | undefined;
  repliedMs = 0;
  /** How many units were free at the server when it sent `reply`. */
  free = Infinity;
  waiters: Waiter[] = [];
  isCalling = false;
  resets = 0;

  constructor(readonly key: string) {}
}

export class Ahead {
  readonly #maxUnits: number;
  /** The units that the limiter holds for each key, ordered by `sweepAtMs`. */
  readonly #stocks = new Map<string, Stock>();
  /** Requests to the server that have no reply yet. */
  readonly #pending = new Set<Promise<unknown>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    units: number,
    private readonly limit: number,
    private readonly holdMs: number,
    private readonly source: Source,
  ) {
    this.#maxUnits = Math.min(units, limit);
  }

  /** Hands out units taken in advance. Returns undefined if too few are left. With `isPeek`, hands out none. */
  take(key: string, cost: number, isPeek = false): Fields | undefined {
    const stock = this.#stocks.get(key);
    if (!stock?.reply || stock.left < cost) return undefined;
    const time = now();
    if (time >= stock.deadlineMs) return undefined;
    if (!isPeek) {
      stock.left -= cost;
      stock.used += cost;
    }
    return answer(stock, stock.reply, isPeek ? 0 : stock.reply.chargedUntilMs, time);
  }

  /** Takes units with the next call to the server, and waits for the reply. */
  ask(key: string, cost: number): Promise<Fields> {
    const stock = this.#stocks.get(key) ?? new Stock(key);
    const reply = new Promise<Fields>((resolve, reject) => stock.waiters.push({ cost, resolve, reject }));
    if (!stock.isCalling) this.#track(this.#callAll(stock));
    return reply;
  }

  /** Forgets the units of a limit that was reset, including units of a call in flight. */
  drop(key: string): void {
    const stock = this.#stocks.get(key);
    if (!stock) return;
    stock.left = 0;
    stock.resets += 1;
  }

  /** Refunds all held units. Afterwards, the limiter takes no units ahead. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const stock of this.#stocks.values()) this.#return(stock);
    this.#stocks.clear();
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  /** Calls the server until no caller waits. */
  async #callAll(stock: Stock): Promise<void> {
    stock.isCalling = true;
    while (stock.waiters.length > 0) await this.#call(stock);
    stock.isCalling = false;
  }

  async #call(stock: Stock): Promise<void> {
    const { key, resets } = stock;
    const sentMs = now();
    if (sentMs < stock.deadlineMs) stock.want = Math.min(2 * (stock.want || 1), this.#maxUnits);
    this.#return(stock);
    const waiters = nextWaiters(stock);
    const asked = waiters.reduce((sum, { cost }) => sum + cost, 0);
    // Holds at most half of the units that are left at the server, because other processes need units, too.
    const more = this.#isClosed ? 0 : Math.max(0, Math.min(stock.want - asked, this.limit - asked, Math.floor((stock.free - asked) / 2)));
    this.#keep(stock, sentMs + this.holdMs);
    let fields: Fields;
    try {
      fields = await this.source.take(key, asked + more, ({ allowed, chargedUntilMs }) => {
        if (allowed && more > 0) this.#refund(key, more, chargedUntilMs);
      });
    } catch (thrown) {
      // Also rejects the callers that came during the call. If they waited for another call, they might exceed their
      // timeout.
      for (const waiter of [...waiters, ...stock.waiters.splice(0)]) waiter.reject(asError(thrown));
      return;
    }
    stock.free = Math.max(0, fields.remaining);
    if (fields.allowed) return this.#accept(stock, fields, waiters, stock.resets === resets ? more : 0, sentMs);
    stock.want >>= 1;
    stock.deadlineMs = 0;
    // The server may allow a call for fewer units, or reply with a shorter wait.
    if (waiters.length > 1 || more > 0) return void stock.waiters.unshift(...waiters);
    const { cost } = waiters[0] as Waiter;
    this.source.denied(key, cost, fields);
    for (const waiter of waiters.concat(stock.waiters.filter((other) => other.cost >= cost))) waiter.resolve(fields);
    stock.waiters = stock.waiters.filter((other) => other.cost < cost);
  }

  #accept(stock: Stock, fields: Fields, waiters: readonly Waiter[], more: number, sentMs: number): void {
    const time = now();
    Object.assign(stock, { reply: fields, repliedMs: time, left: more, deadlineMs: sentMs + this.holdMs });
    this.#keep(stock, stock.deadlineMs);
    stock.used += waiters.reduce((sum, { cost }) => sum + cost, 0);
    for (const { resolve } of waiters) resolve(answer(stock, fields, fields.chargedUntilMs, time));
    if (this.#isClosed || time >= stock.deadlineMs) this.#return(stock);
    const waiting = stock.waiters;
    stock.waiters = [];
    for (const waiter of waiting) {
      const held = this.take(stock.key, waiter.cost);
      if (held) waiter.resolve(held);
      else stock.waiters.push(waiter);
    }
  }

  /** Refunds the unused units of a key. Returns whether `stock.used` was above 0. */
  #return(stock: Stock): boolean {
    const { key, left, reply, used } = stock;
    if (left > 0 && reply) {
      this.#refund(key, left, reply.chargedUntilMs);
      stock.want = Math.min(used, this.#maxUnits);
    }
    stock.left = stock.used = 0;
    return used > 0;
  }

  #refund(key: string, units: number, chargedUntilMs: number): void {
    // Units that cannot be refunded become available again when their window ends.
    this.#track(this.source.refund(key, units, chargedUntilMs).catch(() => undefined));
  }

  #track(promise: Promise<unknown>): void {
    this.#pending.add(promise);
    void promise.finally(() => this.#pending.delete(promise));
  }

  #keep(stock: Stock, sweepAtMs: number): void {
    if (this.#isClosed) return;
    stock.sweepAtMs = sweepAtMs;
    this.#stocks.delete(stock.key);
    this.#stocks.set(stock.key, stock);
    if (this.#stocks.size > MAX_KEYS) {
      const [oldest] = this.#stocks.values();
      if (oldest) {
        this.#return(oldest);
        this.#stocks.delete(oldest.key);
      }
    }
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer) return;
    const [first] = this.#stocks.values();
    if (!first) return;
    this.#timer = setTimeout(() => this.#sweep(), Math.max(1, first.sweepAtMs - now()));
    this.#timer.unref();
  }

  /**
   * Refunds the unused units of the keys whose hold has ended. Forgets a key if none of its units were used. Remembers
   * the other keys for one more hold, so that their next call knows how many units to take ahead.
   */
  #sweep(): void {
    this.#timer = undefined;
    const time = now();
    for (const stock of this.#stocks.values()) {
      if (stock.sweepAtMs > time) break;
      const wasUsed = this.#return(stock);
      if (wasUsed || stock.isCalling) this.#keep(stock, time + this.holdMs);
      else this.#stocks.delete(stock.key);
    }
    this.#schedule();
  }
}

/**
 * Removes and returns the callers that the next call serves. Their total cost is at most `free`, unless the first
 * caller alone costs more.
 */
function nextWaiters(stock: Stock): Waiter[] {
  let sum = 0;
  let count = 0;
  for (const { cost } of stock.waiters) {
    sum += cost;
    if (count > 0 && sum > stock.free) break;
    count += 1;
  }
  return stock.waiters.splice(0, count);
}

function answer(stock: Stock, reply: Fields, chargedUntilMs: number, time: number): Fields {
  const resetAfterMs = Math.max(1, Math.ceil(reply.resetAfterMs - (time - stock.repliedMs)));
  return { ...reply, remaining: Math.max(0, reply.remaining) + stock.left, resetAfterMs, chargedUntilMs };
}
