/** Builds ZQ commands, and parses their replies. Does no I/O. */

import { randomBytes } from "node:crypto";
import { type Codec, decodeOrNot, headed, type Undecodable } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import { shardOf } from "../shards.js";
import {
  camelCase,
  type Duration,
  duration,
  fields,
  type Instant,
  instant,
  integer,
  integerOrNull,
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

/** When a job is due: after `delay`, or at the time `at`; now by default. */
export interface Due {
  readonly delay?: Duration;
  readonly at?: Instant;
}

export interface PushOptions extends Due {
  /** Your own id. While a job of this id is in the queue, in any state, another push does nothing. */
  readonly id?: string;
  /** Jobs of a lower priority are served first; 0 by default. */
  readonly priority?: number;
  /**
   * The number of deliveries after which the job becomes a dead letter. 0 means no limit. By default, the queue's
   * setting applies.
   */
  readonly maxAttempts?: number;
  /** The period of a job that recurs. */
  readonly every?: Duration;
  readonly group?: string;
  /** A traceparent, which the library stores before the JSON payload. The handler gets it as `job.traceparent`. */
  readonly traceparent?: string | undefined;
  /** How long the handler may run. This value replaces the worker's `timeout`, and requires JSON payloads. */
  readonly timeout?: Duration;
  /** How long the job can be claimed after its due time. */
  readonly ttl?: Duration;
  /** Whether to replace a job of this id in any state. */
  readonly replace?: boolean;
  /**
   * Whether the job of this id has to run at least once after this push. Two runs never overlap. If a job of this id
   * waits, that job gets the payload and the TTL of this push. If a worker holds the job, the queue stores this push
   * until the job is done, dead or cancelled. A later push replaces the stored push.
   */
  readonly again?: boolean;
  /**
   * Needs `id` and `every`: the recurring job of this id becomes what this push says, and keeps its due time. If a
   * worker holds the job, that run goes on, and the change takes effect when it ends. So a program can declare its
   * recurring jobs at each start.
   */
  readonly declare?: boolean;
}

export interface Settings {
  readonly maxAttempts?: number;
  /** The wait after a failure: `[base, max]`. It doubles with each attempt. */
  readonly backoff?: readonly [Duration, Duration];
  /** The maximum random addition to the wait after a failure, as a percentage of this wait. */
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
  readonly payload: T | Undecodable;
  readonly priority: number;
  readonly attempts: number;
  /** The Unix time at which a waiting job is due, a claimed job's lease expires, or a dead job became a dead letter. */
  readonly dueMs: number;
  readonly error: string | null;
  readonly worker: string | null;
  readonly group: string | null;
  /** The last text of `job.progress`. */
  readonly progress: string | null;
  /** The payload of the waiting push, or null. A push with `again` or `declare` waits until the job's claim ends. */
  readonly again: T | Undecodable | null;
  /** The fields of the reply of ZQ.GET without the payloads. The names are in camel case. */
  readonly fields: Readonly<Record<string, string | number | null>>;
}

/** A job as ZQ.PEEK shows it. */
export interface Listed<T> {
  readonly id: string;
  readonly dueMs: number;
  readonly priority: number;
  readonly attempts: number;
  readonly payload: T | Undecodable;
  /** The lease of a claimed job, if `peek` was called with `lease`. */
  readonly lease?: Lease;
}

/** A worker's right to run a job until a deadline. */
export interface Lease {
  readonly worker: string | null;
  readonly token: number;
  readonly deadlineMs: number;
}

/**
 * The group of the jobs that `cancel`, `get` or `reschedule` acts on. If the queue has shards, the library sends the
 * command to the shard of this group.
 */
export interface OfGroup {
  readonly group?: string;
}

export interface RescheduleOptions extends Due, OfGroup {
  readonly priority?: number;
}

export interface PeekOptions {
  /** 10 by default. */
  readonly count?: number;
  /** The list begins after the job of this id. */
  readonly after?: string;
  /** Only jobs of this group; `""` means the jobs without a group. */
  readonly group?: string;
  /** Whether to include the leases of claimed jobs. */
  readonly lease?: boolean;
}

export interface RedriveOptions {
  readonly ids?: readonly string[];
  /** 1,000 by default. */
  readonly count?: number;
  /** Only jobs of this group; `""` means the jobs without a group. */
  readonly group?: string;
}

export interface CleanOptions {
  readonly older?: Duration;
  /** 1,000 by default. */
  readonly count?: number;
  /** Only jobs of this group; `""` means the jobs without a group. */
  readonly group?: string;
}

export interface GroupsOptions {
  /** 10 by default. */
  readonly count?: number;
  /** Only groups whose names come after this name. */
  readonly after?: string;
  /** The groups with most ready jobs first. */
  readonly largest?: boolean;
}

export interface GroupInfo {
  /** Empty for the jobs that were pushed without a group. */
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
  readonly claimed: number;
  /** When the group's hold ends (`hold`). Until then, no job of the group is claimed. Null if the group is not held. */
  readonly heldUntilMs: number | null;
}

/** The fields of ZQ.STATS, with names in camel case. A newer server may have more fields. */
export interface Stats {
  readonly ready: number;
  readonly delayed: number;
  readonly claimed: number;
  readonly dead: number;
  readonly groups: number;
  readonly oldestReadyMs: number | null;
  readonly pushed: number;
  readonly claimedTotal: number;
  readonly acked: number;
  readonly nacked: number;
  readonly cancelled: number;
  readonly redriven: number;
  readonly expiredLeases: number;
  readonly replaced: number;
  readonly recurred: number;
  readonly missed: number;
  readonly cleaned: number;
  readonly dropped: number;
  readonly revoked: number;
  readonly late: number;
  readonly expired: number;
  readonly maxAttempts: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  readonly agingMs: number;
  readonly maxlen: number;
  readonly concurrency: number;
  readonly rateLimit: number;
  readonly rateWindowMs: number;
  readonly groupConcurrency: number;
  readonly groupRateLimit: number;
  readonly groupRateWindowMs: number;
  readonly ordered: "yes" | "no";
  readonly paused: "yes" | "no";
  readonly jitter: number;
  readonly deadlen: number;
  readonly deadttlMs: number;
}

function due({ delay, at }: Due): string[] {
  if (delay !== undefined && at !== undefined) throw new TypeError("either delay or at");
  if (at !== undefined) return ["AT", instant(at)];
  return delay === undefined ? [] : ["DELAY", duration(delay)];
}

const option = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
const number = (name: string, value: number | undefined): string[] =>
  option(name, value === undefined ? undefined : whole(value, name.toLowerCase()));
const time = (name: string, value: Duration | undefined): string[] =>
  option(name, value === undefined ? undefined : duration(value));

/** The commands of a queue. A `Queue` sends them, and `job.chain` sends them with an ACK. */
export class QueueCalls<T> {
  /** `keys`: the key of the queue, or the keys of its shards. */
  constructor(
    private readonly keys: readonly string[],
    private readonly codec: Codec<T>,
    /** The `traceparent` for jobs that are pushed without one. */
    private readonly traceparent: () => string | undefined = () => undefined,
  ) {}

  push(payload: T, options: PushOptions = {}): Call<string | null> {
    const { id, priority, maxAttempts, every, group, ttl, replace, again, declare } = options;
    if (again && id === undefined) throw new TypeError("again needs an id");
    if ([again, replace, declare].filter(Boolean).length > 1) throw new TypeError("either replace, again or declare");
    if (declare && (id === undefined || every === undefined)) throw new TypeError("declare needs an id and every");
    // If a push is repeated after a lost reply, the random id prevents a second job.
    const name = id ?? randomBytes(12).toString("base64url");
    // A declaration of the same job must have the same payload at each start.
    const traceparent = options.traceparent ?? (declare ? undefined : this.traceparent());
    const body = headed(this.codec, this.codec.encode(payload), traceparent, options.timeout);
    const words: Word[] = ["ZQ.PUSH", this.#key(group || name), body, "ID", name, ...due(options)];
    if (priority) words.push("PRIORITY", whole(priority, "priority"));
    words.push(...number("MAXATTEMPTS", maxAttempts), ...time("EVERY", every), ...option("GROUP", group), ...time("TTL", ttl));
    if (replace) words.push("REPLACE");
    if (again) words.push("AGAIN");
    if (declare) words.push("DECLARE");
    return called(words, (reply) => (id === undefined ? name : textOrNull(reply)));
  }

  /** Removes jobs. If the queue has shards, accepts only one id. */
  cancel(...ids: string[]): Call<number> {
    return called(["ZQ.CANCEL", this.#key(ids.length === 1 ? ids[0] : undefined), ...ids], integer);
  }

  reschedule(id: string, options: RescheduleOptions): Call<boolean> {
    const words = ["ZQ.RESCHEDULE", this.#key(options.group || id), id, ...due(options), ...number("PRIORITY", options.priority)];
    return called(words, (reply) => integer(reply) === 1);
  }

  get(id: string, { group }: OfGroup = {}): Call<JobInfo<T> | null> {
    return called(["ZQ.GET", this.#key(group || id), id], (reply) => {
      if (reply === null) return null;
      const found = fields(reply);
      const again = found.get("again_payload") ?? null;
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
        progress: textOrNull(found.get("progress") ?? null),
        again: again === null ? null : this.payload(again),
        fields: plain(found, new Set(["payload", "again_payload"])),
      };
    });
  }

  peek(state: State = "ready", { count = 10, after, group, lease = false }: PeekOptions = {}): Call<Listed<T>[]> {
    const words = ["ZQ.PEEK", this.#key(group || undefined), state.toUpperCase(), "COUNT", whole(count, "count")];
    words.push(...option("AFTER", after), ...option("GROUP", group), ...(lease ? ["WITHLEASE"] : []));
    return called(words, (reply) =>
      list(reply).map((row) => {
        const [id, dueMs, priority, attempts, payload, worker, token, deadlineMs] = list(row);
        return {
          id: text(id),
          dueMs: integer(dueMs),
          priority: integer(priority),
          attempts: integer(attempts),
          payload: this.payload(payload),
          ...(lease ? { lease: { worker: textOrNull(worker), token: integer(token), deadlineMs: integer(deadlineMs) } } : {}),
        };
      }),
    );
  }

  redrive({ ids, count, group }: RedriveOptions = {}): Call<number> {
    const words = ["ZQ.REDRIVE", this.#key(group || undefined), ...option("GROUP", group), ...(ids ? ["ID", ...ids] : []), ...number("COUNT", count)];
    return called(words, integer);
  }

  clean(state: Exclude<State, "claimed">, { older, count, group }: CleanOptions = {}): Call<number> {
    const words = ["ZQ.CLEAN", this.#key(group || undefined), state.toUpperCase(), ...time("OLDER", older), ...option("GROUP", group), ...number("COUNT", count)];
    return called(words, integer);
  }

  hold(group: string, wait: Duration): Call<boolean> {
    return called(["ZQ.HOLD", this.#key(group || undefined), group, duration(wait)], (reply) => integer(reply) === 1);
  }

  stats(): Call<Stats | null> {
    const read = (reply: Reply) => (reply === null ? null : (plain(fields(reply), new Set()) as unknown as Stats));
    return called(["ZQ.STATS", this.#key()], read);
  }

  configure(settings: Settings): Call<void> {
    const pair = (name: string, value: readonly [Duration, Duration] | undefined): string[] =>
      value ? [name, duration(value[0]), duration(value[1])] : [];
    const rate = (name: string, value: readonly [number, Duration] | undefined): string[] =>
      value ? [name, whole(value[0], name), duration(value[1])] : [];
    const flag = (name: string, value: boolean | undefined): string[] => (value === undefined ? [] : [name, value ? "yes" : "no"]);
    const words = [
      ...number("MAXATTEMPTS", settings.maxAttempts),
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
    return called(["ZQ.CONFIG", this.#key(), ...words], () => undefined);
  }

  groups({ count, after, largest = false }: GroupsOptions = {}): Call<GroupInfo[]> {
    if (largest && after !== undefined) throw new TypeError("either after or largest");
    const which = largest ? ["LARGEST"] : option("AFTER", after);
    return called(["ZQ.GROUPS", this.#key(), ...which, ...number("COUNT", count)], (reply) =>
      list(reply).map((row) => {
        const [name, ready, delayed, claimed, heldUntilMs] = list(row);
        return {
          name: text(name),
          ready: integer(ready),
          delayed: integer(delayed),
          claimed: integer(claimed),
          heldUntilMs: integerOrNull(heldUntilMs),
        };
      }),
    );
  }

  private payload(reply: Reply | undefined): T | Undecodable {
    return decodeOrNot(this.codec, bytes(reply));
  }

  /** Returns the key of the shard that has a job. `name` is the job's group, or the job's id if it has no group. */
  #key(name?: string): string {
    const [key = ""] = this.keys;
    if (this.keys.length === 1) return key;
    if (name === undefined) throw new TypeError("this command is for one shard: use queue.shard(i).calls");
    return this.keys[shardOf(name, this.keys.length)] ?? key;
  }
}

/** Returns the `Call` for a command. The second word is the key. */
function called<R>(words: readonly Word[], read: (reply: Reply) => R): Call<R> {
  return { key: String(words[1]), words, read };
}

export const bytes = (reply: Reply | undefined): Buffer => (reply instanceof Buffer ? reply : Buffer.from(text(reply)));

function plain(found: ReadonlyMap<string, Reply>, but: ReadonlySet<string>): Record<string, string | number | null> {
  const entries = [...found].filter(([name]) => !but.has(name));
  return Object.fromEntries(
    entries.map(([name, value]) => {
      // Some clients are configured to return integers as text.
      const isNumber = typeof value === "number" || (!WORDS.has(name) && value !== null && /^-?\d+$/.test(text(value)));
      return [camelCase(name), isNumber ? integer(value) : textOrNull(value)];
    }),
  );
}

/** Fields that are text, even if they look like a number. */
const WORDS = new Set(["state", "error", "worker", "group", "progress"]);
