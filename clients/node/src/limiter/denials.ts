/**
 * Remembers denials. A denial says how long the key stays denied. During that time, the limiter does not ask the
 * server.
 */

import type { Fields } from "../wire/limits.js";
import { now } from "./clock.js";

/** The most keys for which a limiter remembers a denial. The least recently used key is forgotten first. */
const KEYS = 10_000;

interface Denial {
  readonly cost: number;
  readonly fields: Fields;
  readonly toldMs: number;
  readonly untilMs: number;
  readonly among: Among | undefined;
}

/** The reply to a denied call for several limits. */
interface Among {
  /** The keys and costs of the call, as one string. */
  readonly call: string;
  readonly limits: readonly Fields[];
}

export class Denials {
  readonly #keys = new Map<string, Denial>();
  /** How often `forget` was called. `add` ignores the reply to a call that was sent before the last `forget`. */
  forgotten = 0;

  /** No denial is remembered for longer than `mostMs`. */
  constructor(private readonly mostMs: number) {}

  /**
   * Returns the denial of a call that costs `cost`, with the waits as of now. Returns undefined if the server may allow
   * the call.
   */
  get(key: string, cost: number): Fields | undefined {
    const denial = this.#find(key);
    return denial && cost >= denial.cost ? later(denial.fields, now() - denial.toldMs) : undefined;
  }

  /**
   * Returns the replies that the server would give now to a call for several limits. Returns undefined unless the limit
   * of `key` has denied this call and still denies it. `call`: the keys and costs of the call, as one string.
   */
  among(key: string, call: string): readonly Fields[] | undefined {
    const denial = this.#find(key);
    if (denial?.among?.call !== call) return undefined;
    const passedMs = now() - denial.toldMs;
    const limits = denial.among.limits.map((fields) => later(fields, passedMs));
    // If the wait of one limit is over, the decision of the server is no longer known.
    return limits.some(({ allowed, retryAfterMs }) => !allowed && retryAfterMs === 0) ? undefined : limits;
  }

  /**
   * Remembers a reply that denies. `forgotten`: the value of `this.forgotten` when the command was sent. If `forget`
   * was called since then, ignores the reply. `among`: the whole reply to a command for several limits.
   */
  add(key: string, cost: number, fields: Fields, forgotten: number, among?: Among): void {
    const toldMs = now();
    // The denial ends 1 ms early, because timers may fire early, and the server must decide about a caller that has
    // waited.
    const untilMs = toldMs + Math.min(fields.retryAfterMs, this.mostMs) - 1;
    if (fields.allowed || untilMs <= toldMs || forgotten !== this.forgotten) return;
    this.#keys.delete(key);
    if (this.#keys.size >= KEYS) this.#keys.delete(this.#keys.keys().next().value as string);
    this.#keys.set(key, { cost, fields, toldMs, untilMs, among });
  }

  forget(key: string): void {
    this.forgotten += 1;
    this.#keys.delete(key);
  }

  #find(key: string): Denial | undefined {
    const denial = this.#keys.get(key);
    if (!denial) return undefined;
    this.#keys.delete(key);
    if (now() >= denial.untilMs) return undefined;
    this.#keys.set(key, denial);
    return denial;
  }
}

function later(fields: Fields, passedMs: number): Fields {
  const left = (ms: number): number => Math.max(0, Math.ceil(ms - passedMs));
  return { ...fields, retryAfterMs: left(fields.retryAfterMs), resetAfterMs: left(fields.resetAfterMs) };
}
