/**
 * A pump does its chores when it connects, and then every minute. It checks whether its queues have a BACKOFF, and
 * pushes missing recurring jobs.
 *
 * If the definition of a recurring job has changed, the chores also replace the run that waits, in whatever queue or
 * shard of the worker. A run that a worker has claimed meanwhile must not be replaced, or it would run twice. So the
 * chores first put off the run by an hour. The server refuses this for a claimed job.
 */

import { decoded } from "../boundary.js";
import type { Codec } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import { fields, integer, list, text } from "../values.js";
import * as wire from "../wire/claims.js";
import type { Claimed } from "../wire/claims.js";
import { type Cron, isAsPushed, isRun, type Run } from "./cron.js";
import type { Link } from "./link.js";
import type { Outcome } from "./outcome.js";

const HOUR_MS = 3_600_000;

interface Place {
  readonly key: string;
  readonly name: string;
}

export class Chores {
  readonly #withBackoff = new Set<string>();
  /** Recurring jobs by the key of the queue and the name of the job. */
  readonly #crons = new Map<string, Map<string, Cron>>();
  /** Keys, each with the name of a recurring job that has another key. An earlier program may have pushed it here. */
  readonly #strays: readonly Place[];
  /** How far the server's clock is ahead of the worker's clock. */
  #aheadMs = 0;

  constructor(
    private readonly keys: readonly string[],
    /** The recurring jobs of the worker, each with the key to which it is pushed. */
    crons: readonly (readonly [key: string, Cron])[],
    private readonly codec: Codec<unknown>,
    /** A clock for tests, which is ahead of the server's clock by `aheadMs`. */
    private readonly clock: { readonly aheadMs: number },
  ) {
    for (const [key, cron] of crons.filter(([key]) => keys.includes(key))) {
      const names = this.#crons.get(key) ?? new Map<string, Cron>();
      if (names.has(cron.name)) throw new RangeError(`${cron.name} is there twice`);
      this.#crons.set(key, names.set(cron.name, cron));
    }
    const places = keys.flatMap((key) => [...new Set(crons.map(([, { name }]) => name))].map((name) => ({ key, name })));
    this.#strays = places.filter(({ key, name }) => !this.#crons.get(key)?.has(name));
  }

  async run(link: Link): Promise<void> {
    const [time, ...stats] = await ask(link, [["TIME"], ...this.keys.map((key) => ["ZQ.STATS", key])]);
    this.#aheadMs = decoded(() => {
      const [seconds, micros] = list(time);
      return integer(seconds) * 1000 + integer(micros) / 1000;
    }) - Date.now();
    for (const [at, key] of this.keys.entries()) {
      const found = stats[at] ?? null;
      const hasBackoff = decoded(() => found !== null && integer(fields(found).get("backoff_base_ms")) > 0);
      if (hasBackoff) this.#withBackoff.add(key);
      else this.#withBackoff.delete(key);
    }
    const now = this.#now();
    const isLeft = await this.#removeStrays(link, now);
    // A run of the old place that is due now stays there. The new place gets the run after it.
    for (const [key, crons] of this.#crons) await this.#push(link, key, crons, isLeft ? now + 1000 : now);
  }

  /**
   * Removes the runs that wait in keys in which an earlier version of the program has pushed the recurring jobs. Returns
   * whether such a key still has a job of the same name.
   */
  async #removeStrays(link: Link, now: number): Promise<boolean> {
    const found = await this.#look(link, this.#strays);
    const taken = await this.#putOff(link, found.filter(({ run }) => isRun(run, now)), now);
    await ask(link, taken.map(({ key, name }) => ["ZQ.CANCEL", key, name]));
    return taken.length < found.length;
  }

  /** Pushes the recurring jobs that the queue does not have. Changes those that wait and have another definition. */
  async #push(link: Link, key: string, crons: ReadonlyMap<string, Cron>, now: number): Promise<void> {
    const all = [...crons.values()];
    await ask(link, this.#pushes(key, all, now));
    const found = await this.#look(link, all.map(({ name }) => ({ key, name })));
    // A job that is due now, or that waits for another attempt after a failure, stays as it is.
    const waiting = found.flatMap(({ name, run }) => {
      const cron = crons.get(name);
      const next = cron?.next(now) ?? null;
      return cron && next !== null && isRun(run, now) ? [{ key, name, run, cron, next }] : [];
    });
    const isOutdated = ({ cron, run }: { cron: Cron; run: Run }): boolean =>
      !isAsPushed(cron, run, this.codec.encode(cron.payload));
    const moves = waiting.filter((it) => !isOutdated(it) && it.run.dueMs !== it.next);
    await ask(link, moves.map(({ name, next }) => ["ZQ.RESCHEDULE", key, name, "AT", `${next - this.clock.aheadMs}ms`]));
    const taken = await this.#putOff(link, waiting.filter(isOutdated), now);
    await ask(link, this.#pushes(key, taken.map(({ cron }) => cron), now).map((words) => [...words, "REPLACE"]));
  }

  #pushes(key: string, crons: readonly Cron[], now: number): Word[][] {
    return crons.map((cron) => this.#pushNext(key, cron, now)).filter((words) => words !== undefined);
  }

  /** Returns the jobs of these keys and names that exist. */
  async #look<P extends Place>(link: Link, places: readonly P[]): Promise<(P & { run: Run })[]> {
    const replies = await ask(link, places.map(({ key, name }) => ["ZQ.GET", key, name]));
    return places.flatMap((place, at) => {
      const reply = replies[at] ?? null;
      return reply === null ? [] : [{ ...place, run: decoded(() => this.#run(fields(reply))) }];
    });
  }

  #run(found: ReadonlyMap<string, Reply>): Run {
    const number = (name: string): number => integer(found.get(name));
    const group = found.get("group") ?? null;
    const payload = found.get("payload") ?? null;
    return {
      state: text(found.get("state")),
      attempts: number("attempts"),
      maxAttempts: number("max_attempts"),
      hasPeriod: (found.get("every_ms") ?? null) !== null,
      dueMs: number("due_ms") + this.clock.aheadMs,
      payload: payload instanceof Buffer ? payload : Buffer.from(text(payload)),
      priority: number("priority"),
      group: group === null ? "" : text(group),
    };
  }

  /** Postpones runs so far that no worker claims them. Returns those that were still waiting. */
  async #putOff<P extends Place>(link: Link, places: readonly P[], now: number): Promise<P[]> {
    const at = `${Math.ceil(now) - this.clock.aheadMs + HOUR_MS}ms`;
    const replies = await ask(link, places.map(({ key, name }) => ["ZQ.RESCHEDULE", key, name, "AT", at]));
    return places.filter((_, nth) => decoded(() => integer(replies[nth])) === 1);
  }

  hasBackoff(key: string): boolean {
    return this.#withBackoff.has(key);
  }

  /**
   * Whether a claimed run of a recurring job has used up its attempts: each earlier attempt ended its process, or its
   * report got lost.
   */
  isUsedUp({ key, id, attempt }: Claimed): boolean {
    return attempt > (this.#crons.get(key)?.get(id)?.maxAttempts ?? Infinity);
  }

  /**
   * Returns the outcome to report. If `outcome` ends a run of a recurring job, adds a command that pushes the next run.
   * The worker sends this command in one MULTI with the report.
   */
  andNext<T>(outcome: Outcome<T>, leaseMs: number): Outcome<T> {
    const { job, ending } = outcome;
    const cron = this.#crons.get(job.key)?.get(job.id);
    if (!cron) return outcome;
    const isOver = ending === "completed" || ending === "discarded";
    const isGivenUp = (ending === "failed" || ending === "retried") && !outcome.isFree && job.attempt >= cron.maxAttempts;
    if (!isOver && !isGivenUp) return outcome;
    // The next run must be later than the claim, or the last heartbeat. If this clock is behind the server's, the same
    // run would otherwise start again.
    const next = this.#pushNext(job.key, cron, Math.max(this.#now(), job.deadlineMs - leaseMs + this.clock.aheadMs));
    const commands = ending === "completed" ? outcome.commands : [wire.ack(job)];
    const { look: _, ...rest } = outcome;
    return {
      ...rest,
      isDead: false,
      ending: isOver ? ending : "discarded",
      commands: next ? [...commands, next] : commands,
    };
  }

  #pushNext(key: string, cron: Cron, afterMs: number): Word[] | undefined {
    const next = cron.next(afterMs);
    return next === null ? undefined : cron.push(key, this.codec.encode(cron.payload), next - this.clock.aheadMs);
  }

  #now(): number {
    return Date.now() + this.#aheadMs + this.clock.aheadMs;
  }
}

/** Sends commands, and returns the replies. Throws the first error reply. */
async function ask(link: Link, commands: readonly (readonly Word[])[]): Promise<Reply[]> {
  if (commands.length === 0) return [];
  const replies = await link.request(commands);
  return replies.map((reply) => {
    if (reply instanceof Error) throw reply;
    return reply;
  });
}
