/**
 * Units ahead: a limiter takes many units in one call, and hands them out without asking the server.
 *
 * The server is asked for the window and the hold. Units are handed out only during the hold, which counts from before the call was
 * sent. So the server has taken each unit that is handed out in any window within that window and the hold before it, and it allows
 * no more than the limit in that time.
 *
 * There is one call at a time for a key. It takes units for those who wait when it is sent, and some more: twice as many each time
 * they were used up during the hold, and as many as were used where they were not. Those go back.
 */

import { asError } from "../errors.js";
import type { Fields } from "../wire/limits.js";
import { now } from "./clock.js";

/** Keys of a limiter whose units are held at a time. */
const KEYS = 10_000;

/** What the limiter does for its units. */
export interface Source {
  /** Asks the server for that number of units. `onLate` gets what comes after the caller was told that Redis is away. */
  take(key: string, units: number, onLate: (fields: Fields) => void): Promise<Fields>;
  /** Gives units back. */
  giveBack(key: string, units: number, chargedUntilMs: number): Promise<unknown>;
  /** Denials are remembered, and so known to those who wait. */
  denied(key: string, cost: number, fields: Fields): void;
}

interface Rider {
  readonly cost: number;
  readonly resolve: (fields: Fields) => void;
  readonly reject: (error: Error) => void;
}

/** What is held of a key. */
class Stock {
  left = 0;
  /** Units handed out since the last call. */
  used = 0;
  /** Units to hold after the next call. */
  want = 0;
  /** Until when units may be handed out. */
  deadlineMs = 0;
  /** When the sweep looks at it. */
  endsMs = 0;
  /** The reply to the last call, and when it came. */
  told: Fields | undefined;
  toldMs = 0;
  /** Units that the server has, as far as is known. */
  free = Infinity;
  riders: Rider[] = [];
  isFlying = false;
  resets = 0;

  constructor(readonly key: string) {}
}

export class Ahead {
  readonly #most: number;
  /** In the order of `endsMs`. */
  readonly #stocks = new Map<string, Stock>();
  /** What is on its way. */
  readonly #pending = new Set<Promise<unknown>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    units: number,
    private readonly limit: number,
    private readonly holdMs: number,
    private readonly source: Source,
  ) {
    this.#most = Math.min(units, limit);
  }

  /** Hands out units that are held; or only says what it would, if it is `looking`. */
  take(key: string, cost: number, looking = false): Fields | undefined {
    const stock = this.#stocks.get(key);
    if (!stock?.told || stock.left < cost) return undefined;
    const time = now();
    if (time >= stock.deadlineMs) return undefined;
    if (!looking) {
      stock.left -= cost;
      stock.used += cost;
    }
    return answer(stock, stock.told, looking ? 0 : stock.told.chargedUntilMs, time);
  }

  /** Takes units with the next call to the server. */
  ask(key: string, cost: number): Promise<Fields> {
    const stock = this.#stocks.get(key) ?? new Stock(key);
    const reply = new Promise<Fields>((resolve, reject) => stock.riders.push({ cost, resolve, reject }));
    if (!stock.isFlying) this.#track(this.#fly(stock));
    return reply;
  }

  /** Forgets the units of a limit that was reset, those that are on their way, too. */
  drop(key: string): void {
    const stock = this.#stocks.get(key);
    if (!stock) return;
    stock.left = 0;
    stock.resets += 1;
  }

  /** Gives everything back. From then on no more is taken than is asked for. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const stock of this.#stocks.values()) this.#return(stock);
    this.#stocks.clear();
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  /** Calls the server until nobody waits. */
  async #fly(stock: Stock): Promise<void> {
    stock.isFlying = true;
    while (stock.riders.length > 0) await this.#call(stock);
    stock.isFlying = false;
  }

  async #call(stock: Stock): Promise<void> {
    const { key, resets } = stock;
    const sentMs = now();
    if (sentMs < stock.deadlineMs) stock.want = Math.min(2 * (stock.want || 1), this.#most);
    this.#return(stock);
    const riders = boarding(stock);
    const asked = riders.reduce((sum, { cost }) => sum + cost, 0);
    // Others need the rest. A call for few of many units is seldom denied.
    const more = this.#isClosed ? 0 : Math.max(0, Math.min(stock.want - asked, this.limit - asked, Math.floor((stock.free - asked) / 2)));
    this.#keep(stock, sentMs + this.holdMs);
    let fields: Fields;
    try {
      fields = await this.source.take(key, asked + more, ({ allowed, chargedUntilMs }) => {
        if (allowed && more > 0) this.#giveBack(key, more, chargedUntilMs);
      });
    } catch (thrown) {
      // Those who came meanwhile would wait for longer than they want to, if Redis is away.
      for (const rider of [...riders, ...stock.riders.splice(0)]) rider.reject(asError(thrown));
      return;
    }
    stock.free = Math.max(0, fields.remaining);
    if (fields.allowed) return this.#land(stock, fields, riders, stock.resets === resets ? more : 0, sentMs);
    stock.want >>= 1;
    stock.deadlineMs = 0;
    // Less may fit, and the wait for less is another one.
    if (riders.length > 1 || more > 0) return void stock.riders.unshift(...riders);
    const { cost } = riders[0] as Rider;
    this.source.denied(key, cost, fields);
    for (const rider of riders.concat(stock.riders.filter((other) => other.cost >= cost))) rider.resolve(fields);
    stock.riders = stock.riders.filter((other) => other.cost < cost);
  }

  #land(stock: Stock, fields: Fields, riders: readonly Rider[], more: number, sentMs: number): void {
    const time = now();
    Object.assign(stock, { told: fields, toldMs: time, left: more, deadlineMs: sentMs + this.holdMs });
    this.#keep(stock, stock.deadlineMs);
    stock.used += riders.reduce((sum, { cost }) => sum + cost, 0);
    for (const { resolve } of riders) resolve(answer(stock, fields, fields.chargedUntilMs, time));
    if (this.#isClosed || time >= stock.deadlineMs) this.#return(stock);
    const waiting = stock.riders;
    stock.riders = [];
    for (const rider of waiting) {
      const held = this.take(stock.key, rider.cost);
      if (held) rider.resolve(held);
      else stock.riders.push(rider);
    }
  }

  /** Gives back what is left of the last call, if it is not needed any more. */
  #return(stock: Stock): boolean {
    const { key, left, told, used } = stock;
    if (left > 0 && told) {
      this.#giveBack(key, left, told.chargedUntilMs);
      stock.want = Math.min(used, this.#most);
    }
    stock.left = stock.used = 0;
    return used > 0;
  }

  #giveBack(key: string, units: number, chargedUntilMs: number): void {
    // Units that cannot be given back become available again when their window ends.
    this.#track(this.source.giveBack(key, units, chargedUntilMs).catch(() => undefined));
  }

  #track(promise: Promise<unknown>): void {
    this.#pending.add(promise);
    void promise.finally(() => this.#pending.delete(promise));
  }

  #keep(stock: Stock, endsMs: number): void {
    if (this.#isClosed) return;
    stock.endsMs = endsMs;
    this.#stocks.delete(stock.key);
    this.#stocks.set(stock.key, stock);
    if (this.#stocks.size > KEYS) {
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
    this.#timer = setTimeout(() => this.#sweep(), Math.max(1, first.endsMs - now()));
    this.#timer.unref();
  }

  /** Gives back what was not used during the hold. A key whose units were used is known for one more. */
  #sweep(): void {
    this.#timer = undefined;
    const time = now();
    for (const stock of this.#stocks.values()) {
      if (stock.endsMs > time) break;
      const wasUsed = this.#return(stock);
      if (wasUsed || stock.isFlying) this.#keep(stock, time + this.holdMs);
      else this.#stocks.delete(stock.key);
    }
    this.#schedule();
  }
}

/** Those for whom the next call asks: the first, and as many more as may fit. */
function boarding(stock: Stock): Rider[] {
  let sum = 0;
  let count = 0;
  for (const { cost } of stock.riders) {
    sum += cost;
    if (count > 0 && sum > stock.free) break;
    count += 1;
  }
  return stock.riders.splice(0, count);
}

function answer(stock: Stock, told: Fields, chargedUntilMs: number, time: number): Fields {
  const resetAfterMs = Math.max(1, Math.ceil(told.resetAfterMs - (time - stock.toldMs)));
  return { ...told, remaining: Math.max(0, told.remaining) + stock.left, resetAfterMs, chargedUntilMs };
}
