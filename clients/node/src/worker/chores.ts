/**
 * A pump does its chores when it connects, and then every minute. It checks whether its queues have a BACKOFF, and
 * pushes missing recurring jobs.
 */

import { decoded } from "../boundary.js";
import type { Codec } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import { fields, integer, list, text } from "../values.js";
import * as wire from "../wire/claims.js";
import type { Claimed } from "../wire/claims.js";
import { type Cron, isMisplaced } from "./cron.js";
import type { Link } from "./link.js";
import type { Outcome } from "./outcome.js";

export class Chores {
  readonly #withBackoff = new Set<string>();
  /** Recurring jobs by the key of the queue and the name of the job. */
  readonly #crons = new Map<string, Map<string, Cron>>();
  /** How far the server's clock is ahead of the worker's clock. */
  #aheadMs = 0;

  constructor(
    private readonly keys: readonly string[],
    /** The recurring jobs, each with the key to which it is pushed. */
    crons: readonly (readonly [key: string, Cron])[],
    private readonly codec: Codec<unknown>,
    /** A clock for tests, which is ahead of the server's clock by `aheadMs`. */
    private readonly clock: { readonly aheadMs: number },
  ) {
    for (const [key, cron] of crons) {
      const names = this.#crons.get(key) ?? new Map<string, Cron>();
      if (names.has(cron.name)) throw new RangeError(`${cron.name} is there twice`);
      this.#crons.set(key, names.set(cron.name, cron));
    }
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
    for (const [key, crons] of this.#crons) await this.#push(link, key, [...crons.values()]);
  }

  /**
   * Pushes the recurring jobs that the queue does not have. If the cron expression of a waiting job has changed, moves
   * the job to the next time of the new expression.
   */
  async #push(link: Link, key: string, crons: readonly Cron[]): Promise<void> {
    const now = this.#now();
    const pushes = crons.map((cron) => this.#pushNext(key, cron, now)).filter((words) => words !== undefined);
    const looks = crons.map((cron) => ["ZQ.GET", key, cron.name]);
    const replies = (await ask(link, [...pushes, ...looks])).slice(pushes.length);
    const moves = crons.flatMap((cron, at) => {
      const reply = replies[at] ?? null;
      const next = cron.next(now);
      if (reply === null || next === null) return [];
      const run = decoded(() => {
        const found = fields(reply);
        const [attempts, dueMs] = [integer(found.get("attempts")), integer(found.get("due_ms"))];
        return { state: text(found.get("state")), attempts, dueMs: dueMs + this.clock.aheadMs };
      });
      return isMisplaced(cron, run, now) ? [["ZQ.RESCHEDULE", key, cron.name, "AT", `${next - this.clock.aheadMs}ms`]] : [];
    });
    if (moves.length > 0) await ask(link, moves);
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
  const replies = await link.request(commands);
  return replies.map((reply) => {
    if (reply instanceof Error) throw reply;
    return reply;
  });
}
