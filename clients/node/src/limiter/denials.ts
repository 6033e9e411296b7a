/** Remembers denials: a reply says for how long a key stays denied, so until then nobody has to ask the server. */

import type { Fields } from "../wire/limits.js";
import { now } from "./clock.js";

/** Keys of a limiter. The one that was asked for least recently is forgotten first. */
const KEYS = 10_000;

interface Denial {
  readonly cost: number;
  readonly fields: Fields;
  readonly toldMs: number;
  readonly untilMs: number;
  readonly among: Among | undefined;
}

/** The reply to a call for several limits, one of which denied. */
interface Among {
  /** The keys and costs of the call. */
  readonly call: string;
  readonly limits: readonly Fields[];
}

export class Denials {
  readonly #keys = new Map<string, Denial>();
  /** How often something was forgotten: a reply that was on its way then is not remembered. */
  forgotten = 0;

  /** No denial is remembered for longer than `mostMs`. */
  constructor(private readonly mostMs: number) {}

  /** What the server would say, if a call that costs no more is denied for some time yet. */
  get(key: string, cost: number): Fields | undefined {
    const denial = this.#find(key);
    return denial && cost >= denial.cost ? later(denial.fields, now() - denial.toldMs) : undefined;
  }

  /** What the server would say to that call for several limits, of which `key` is one. */
  among(key: string, call: string): readonly Fields[] | undefined {
    const denial = this.#find(key);
    if (denial?.among?.call !== call) return undefined;
    const passedMs = now() - denial.toldMs;
    const limits = denial.among.limits.map((fields) => later(fields, passedMs));
    // Once the wait of one is over, what the others say is not the whole truth any more.
    return limits.some(({ allowed, retryAfterMs }) => !allowed && retryAfterMs === 0) ? undefined : limits;
  }

  /** Remembers a reply that has just come, if it denies. `forgotten`: as it was when the call was sent. */
  add(key: string, cost: number, fields: Fields, forgotten: number, among?: Among): void {
    const toldMs = now();
    // Timers may fire a moment early, and whoever waits as told is let in.
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
