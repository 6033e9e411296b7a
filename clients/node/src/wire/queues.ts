/** ZQ: commands as words, replies as objects. Pure. */

import { randomBytes } from "node:crypto";
import { type Codec, decode } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import {
  camelCase,
  type Duration,
  duration,
  fields,
  type Instant,
  instant,
  integer,
  list,
  text,
  textOrNull,
  whole,
} from "../values.js";

/** A command, and how its reply is read. */
export interface Call<T> {
  readonly key: string;
  readonly words: readonly Word[];
  read(reply: Reply): T;
}

export type State = "ready" | "delayed" | "claimed" | "dead";

/** When a job is due: in so long, or at that time; now by default. */
export interface Due {
  readonly delay?: Duration;
  readonly at?: Instant;
}

export interface PushOptions extends Due {
  /** Your own id: while a job of it is in the queue, waiting, claimed or dead, pushing it again does nothing. */
  readonly id?: string;
  /** Lower is served first; 0 by default. */
  readonly priority?: number;
  /** Deliveries before the job is dead, 0: unlimited; the queue's by default. */
  readonly attempts?: number;
  /** Again and again, with this period. */
  readonly every?: Duration;
  readonly group?: string;
  /** Replace a job of this id, whatever its state. */
  readonly replace?: boolean;
}

export interface Settings {
  readonly attempts?: number;
  /** The wait after a failure: `[base, max]`, doubled each time. */
  readonly backoff?: readonly [Duration, Duration];
  /** Up to that many percent more, at random. */
  readonly jitter?: number;
  readonly aging?: Duration;
  readonly maxlen?: number;
  readonly deadlen?: number;
  readonly deadttl?: Duration;
  readonly concurrency?: number;
  /** The most claims in any window: `[limit, window]`. */
  readonly rate?: readonly [number, Duration];
  readonly groupConcurrency?: number;
  readonly groupRate?: readonly [number, Duration];
  readonly ordered?: boolean;
  readonly paused?: boolean;
}

/** A job as ZQ.GET shows it. */
export interface JobInfo<T> {
  readonly id: string;
  readonly state: State;
  readonly payload: T;
  readonly priority: number;
  readonly attempts: number;
  /** Unix time; of a claimed job the end of its lease, of a dead one when it died. */
  readonly dueMs: number;
  readonly error: string | null;
  readonly worker: string | null;
  readonly group: string | null;
  /** Everything else by the names of ZQ.GET in camel case. */
  readonly fields: Readonly<Record<string, string | number | null>>;
}

/** A job as ZQ.PEEK shows it. */
export interface Listed<T> {
  readonly id: string;
  readonly dueMs: number;
  readonly priority: number;
  readonly attempts: number;
  readonly payload: T;
}

export interface GroupInfo {
  /** Null: the jobs that were pushed without a group. */
  readonly name: string | null;
  readonly ready: number;
  readonly delayed: number;
  readonly claimed: number;
}

/** Figures and settings by the names of ZQ.STATS in camel case. */
export type Stats = Readonly<Record<string, string | number | null>> & {
  readonly ready: number;
  readonly delayed: number;
  readonly claimed: number;
  readonly dead: number;
};

function due({ delay, at }: Due): string[] {
  if (delay !== undefined && at !== undefined) throw new TypeError("either delay or at");
  if (at !== undefined) return ["AT", instant(at)];
  return delay === undefined ? [] : ["DELAY", duration(delay)];
}

/** ` name value`, unless the value is undefined. */
const option = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
const number = (name: string, value: number | undefined): string[] =>
  option(name, value === undefined ? undefined : whole(value, name.toLowerCase()));
const time = (name: string, value: Duration | undefined): string[] =>
  option(name, value === undefined ? undefined : duration(value));

/** Commands for one queue. `new Queue(...)` sends them; a job may chain them to its ACK. */
export class QueueCalls<T> {
  constructor(
    readonly key: string,
    private readonly codec: Codec<T>,
  ) {}

  push(payload: T, options: PushOptions = {}): Call<string | null> {
    const { id, priority, attempts, every, group, replace } = options;
    // A random id: a push that is repeated after a lost reply is the same job.
    const name = id ?? randomBytes(12).toString("base64url");
    const words: Word[] = ["ZQ.PUSH", this.key, this.codec.encode(payload), "ID", name, ...due(options)];
    if (priority) words.push("PRIORITY", whole(priority, "priority"));
    words.push(...number("ATTEMPTS", attempts), ...time("EVERY", every), ...option("GROUP", group));
    if (replace) words.push("REPLACE");
    return this.#call(words, (reply) => (id === undefined ? name : textOrNull(reply)));
  }

  cancel(...ids: string[]): Call<number> {
    return this.#call(["ZQ.CANCEL", this.key, ...ids], integer);
  }

  reschedule(id: string, options: Due & { readonly priority?: number }): Call<boolean> {
    const words = ["ZQ.RESCHEDULE", this.key, id, ...due(options), ...number("PRIORITY", options.priority)];
    return this.#call(words, (reply) => integer(reply) === 1);
  }

  get(id: string): Call<JobInfo<T> | null> {
    return this.#call(["ZQ.GET", this.key, id], (reply) => {
      if (reply === null) return null;
      const found = fields(reply);
      return {
        id,
        state: text(found.get("state")) as State,
        payload: this.payload(found.get("payload")),
        priority: integer(found.get("priority")),
        attempts: integer(found.get("attempts")),
        dueMs: integer(found.get("due_ms")),
        error: textOrNull(found.get("error")),
        worker: textOrNull(found.get("worker")),
        group: textOrNull(found.get("group")),
        fields: plain(found, new Set(["payload"])),
      };
    });
  }

  peek(state: State = "ready", { count = 10, after }: { count?: number; after?: string } = {}): Call<Listed<T>[]> {
    const words = ["ZQ.PEEK", this.key, state.toUpperCase(), "COUNT", whole(count, "count"), ...option("AFTER", after)];
    return this.#call(words, (reply) =>
      list(reply).map((row) => {
        const [id, dueMs, priority, attempts, payload] = list(row);
        return {
          id: text(id),
          dueMs: integer(dueMs),
          priority: integer(priority),
          attempts: integer(attempts),
          payload: this.payload(payload),
        };
      }),
    );
  }

  redrive({ ids, count }: { ids?: readonly string[]; count?: number } = {}): Call<number> {
    return this.#call(["ZQ.REDRIVE", this.key, ...(ids ? ["ID", ...ids] : []), ...number("COUNT", count)], integer);
  }

  clean(state: Exclude<State, "claimed">, { older, count }: { older?: Duration; count?: number } = {}): Call<number> {
    const words = ["ZQ.CLEAN", this.key, state.toUpperCase(), ...time("OLDER", older), ...number("COUNT", count)];
    return this.#call(words, integer);
  }

  stats(): Call<Stats> {
    return this.#call(["ZQ.STATS", this.key], (reply) => plain(fields(reply), new Set()) as Stats);
  }

  configure(settings: Settings): Call<void> {
    const pair = (name: string, value: readonly [Duration, Duration] | undefined): string[] =>
      value ? [name, duration(value[0]), duration(value[1])] : [];
    const rate = (name: string, value: readonly [number, Duration] | undefined): string[] =>
      value ? [name, whole(value[0], name), duration(value[1])] : [];
    const flag = (name: string, value: boolean | undefined): string[] => (value === undefined ? [] : [name, value ? "yes" : "no"]);
    const words = [
      ...number("ATTEMPTS", settings.attempts),
      ...pair("BACKOFF", settings.backoff),
      ...number("JITTER", settings.jitter),
      ...time("AGING", settings.aging),
      ...number("MAXLEN", settings.maxlen),
      ...number("DEADLEN", settings.deadlen),
      ...time("DEADTTL", settings.deadttl),
      ...number("CONCURRENCY", settings.concurrency),
      ...rate("RATE", settings.rate),
      ...number("GROUPCONCURRENCY", settings.groupConcurrency),
      ...rate("GROUPRATE", settings.groupRate),
      ...flag("ORDERED", settings.ordered),
      ...flag("PAUSED", settings.paused),
    ];
    if (words.length === 0) throw new TypeError("no settings");
    return this.#call(["ZQ.CONFIG", this.key, ...words], () => undefined);
  }

  groups({ count, after }: { count?: number; after?: string } = {}): Call<GroupInfo[]> {
    return this.#call(["ZQ.GROUPS", this.key, ...option("AFTER", after), ...number("COUNT", count)], (reply) =>
      list(reply).map((row) => {
        const [name, ready, delayed, claimed] = list(row);
        return { name: textOrNull(name), ready: integer(ready), delayed: integer(delayed), claimed: integer(claimed) };
      }),
    );
  }

  private payload(reply: Reply | undefined): T {
    return decode(this.codec, bytes(reply));
  }

  #call<R>(words: readonly Word[], read: (reply: Reply) => R): Call<R> {
    return { key: this.key, words, read };
  }
}

export const bytes = (reply: Reply | undefined): Buffer => (reply instanceof Buffer ? reply : Buffer.from(text(reply)));

function plain(found: ReadonlyMap<string, Reply>, but: ReadonlySet<string>): Record<string, string | number | null> {
  const entries = [...found].filter(([name]) => !but.has(name));
  return Object.fromEntries(
    entries.map(([name, value]) => {
      // Integers come as text, too, where the client was told so.
      const isNumber = typeof value === "number" || (!WORDS.has(name) && value !== null && /^-?\d+$/.test(text(value)));
      return [camelCase(name), isNumber ? integer(value) : textOrNull(value)];
    }),
  );
}

/** Fields that are text whatever they look like. */
const WORDS = new Set(["state", "error", "worker", "group"]);
