/** Pushes jobs, and manages queues. Workers have their own commands. */

import { decoded } from "./boundary.js";
import { type Codec, type CodecName, codecOf } from "./codec.js";
import { type Connection, connectionOf, type RedisClient, type Reply } from "./connection.js";
import { keysOf, shardOf } from "./shards.js";
import { type Duration, list, text, whole } from "./values.js";
import type { Telemetry } from "./telemetry.js";
import * as wire from "./wire/queues.js";

export interface QueueOptions<T> {
  /** `"json"` (default), `"bytes"`, or your own codec. */
  readonly codec?: CodecName | Codec<T>;
  /** An `OpenTelemetry` of zeitset/otel. */
  readonly telemetry?: Telemetry | undefined;
  /**
   * The number of keys that hold the jobs, from 1 to 1,024: `{mails:0}`, `{mails:1}` … In a cluster, these keys are
   * distributed over the nodes. A hash of a job's group selects its key. If the job has no group, a hash of its id
   * selects the key. All clients need the same number.
   */
  readonly shards?: number | undefined;
}

/** The fields of ZQ.STATS that are counts. All other fields but `oldestReadyMs` are settings. */
const FIGURES = new Set([
  ...["ready", "delayed", "claimed", "dead", "groups", "pushed", "claimedTotal", "acked", "nacked", "cancelled", "redriven"],
  ...["expiredLeases", "replaced", "recurred", "missed", "cleaned", "dropped", "revoked", "late", "expired"],
]);

/** How many jobs ZQ.REDRIVE and ZQ.CLEAN handle by default. */
const COUNT = 1000;

/** How many groups ZQ.GROUPS shows by default. */
const GROUPS = 10;

/** A queue: pushes jobs and shows them. `new Queue(redis, "mails")` */
export class Queue<T = any> {
  readonly #redis: Connection;
  readonly #telemetry: Telemetry | undefined;
  /** The commands of each shard. If the queue has no shards, the only item is `calls`. */
  readonly #shards: readonly wire.QueueCalls<T>[];
  readonly #queueOf: (shard: number) => Queue<T>;
  /** Methods that return a command of the queue instead of sending it. `job.chain` takes such commands. */
  readonly calls: wire.QueueCalls<T>;

  constructor(
    client: RedisClient,
    /** The queue's key. If the queue has shards, their keys contain this name. */
    readonly key: string,
    { codec, telemetry, shards }: QueueOptions<T> = {},
  ) {
    this.#redis = connectionOf(client);
    this.#telemetry = telemetry;
    const keys = keysOf(key, shards);
    const callsOf = (...of: string[]): wire.QueueCalls<T> =>
      new wire.QueueCalls(of, codecOf(codec), telemetry?.propagate ? () => telemetry.traceparent() : undefined);
    this.calls = callsOf(...keys);
    this.#shards = keys.length === 1 ? [this.calls] : keys.map((each) => callsOf(each));
    this.#queueOf = (shard) => {
      const its = keys[shard];
      if (its === undefined) throw new RangeError(`no shard ${shard}: the queue ${key} has ${keys.length}`);
      return new Queue(client, its, { ...(codec && { codec }), telemetry });
    };
  }

  /**
   * Adds a job, and returns its id. Without `replace` and `again`, returns null if the queue has a job of this `id`.
   */
  async push(payload: T, options?: wire.PushOptions): Promise<string | null> {
    const [id] = await this.#pushes(1, async () => [await this.#send(this.calls.push(payload, options))]);
    return id ?? null;
  }

  /**
   * Adds several jobs together: `pushMany([{ payload, id, delay … }, …])`. Returns for each job what `push` returns.
   */
  async pushMany(jobs: Iterable<{ readonly payload: T } & wire.PushOptions>): Promise<(string | null)[]> {
    const all = [...jobs];
    return this.#pushes(all.length, async () => {
      const calls = all.map(({ payload, ...options }) => this.calls.push(payload, options));
      const replies = new Map<wire.Call<unknown>, Reply | Error>();
      const keys = [...new Set(calls.map((call) => call.key))];
      const parts = keys.map((key) => calls.filter((call) => call.key === key));
      const send = async (part: typeof calls, key: string): Promise<void> => {
        const received = await this.#redis.pipeline(key, part.map((call) => call.words), "bytes");
        for (const [at, call] of part.entries()) replies.set(call, received[at] ?? null);
      };
      await Promise.all(parts.map((part, at) => send(part, keys[at] ?? "")));
      return calls.map((call) => {
        const reply = replies.get(call) ?? null;
        if (reply instanceof Error) throw reply;
        return decoded(() => call.read(reply));
      });
    });
  }

  #pushes(count: number, push: () => Promise<(string | null)[]>): Promise<(string | null)[]> {
    return this.#telemetry ? this.#telemetry.pushes(this.key, count, push) : push();
  }

  /** Removes jobs in any state. Returns how many. */
  async cancel(...ids: string[]): Promise<number>;
  async cancel(ids: readonly string[], options?: wire.OfGroup): Promise<number>;
  async cancel(first?: string | readonly string[], second?: string | wire.OfGroup, ...rest: string[]): Promise<number> {
    const [ids, { group = undefined } = {}] =
      typeof first === "object" ? [first, second as wire.OfGroup | undefined] : [[first, second, ...rest].filter((id) => typeof id === "string")];
    if (group || this.#shards.length === 1) return this.#send(this.#shard(group).cancel(...ids));
    return sum(await Promise.all(ids.map((id) => this.#find(id, undefined, (shard) => shard.cancel(id)))));
  }

  /** Changes the due time or the priority of a waiting job. Returns false if the job is claimed, dead or missing. */
  async reschedule(id: string, options: wire.RescheduleOptions): Promise<boolean> {
    return this.#find(id, options.group, (shard) => shard.reschedule(id, options));
  }

  async get(id: string, { group }: wire.OfGroup = {}): Promise<wire.JobInfo<T> | null> {
    return this.#find(id, group, (shard) => shard.get(id));
  }

  /** Returns the first jobs in a state. */
  async peek(state: wire.State = "ready", options: wire.PeekOptions = {}): Promise<wire.Listed<T>[]> {
    const { group, after, count = 10 } = options;
    if (group || this.#shards.length === 1) return this.#send(this.#shard(group).peek(state, options));
    if (after !== undefined) throw new TypeError("after needs one shard: name a group, or use queue.shard(i).peek");
    const pages = await this.#all((shard) => shard.peek(state, options));
    const isBefore = (a: wire.Listed<T>, b: wire.Listed<T>): boolean =>
      state === "ready" && a.priority !== b.priority ? a.priority < b.priority : a.dueMs < b.dueMs;
    return merged(pages, count, isBefore);
  }

  /**
   * Makes dead letters ready again: the jobs of the `ids`, or at most `count` jobs (default 1,000). Returns how many.
   */
  async redrive(options: wire.RedriveOptions = {}): Promise<number> {
    const { ids, group, count } = options;
    if (ids && !group && this.#shards.length > 1) {
      return sum(await Promise.all(ids.map((id) => this.#find(id, undefined, (shard) => shard.redrive({ ...options, ids: [id] })))));
    }
    return this.#share(group, count, (shard, share) => shard.redrive({ ...options, ...share }));
  }

  /** Removes up to `count` (default 1,000) jobs of a state, oldest first. Returns how many; 0 if none are left. */
  async clean(state: Exclude<wire.State, "claimed">, options: wire.CleanOptions = {}): Promise<number> {
    return this.#share(options.group, options.count, (shard, share) => shard.clean(state, { ...options, ...share }));
  }

  /**
   * Returns stats and settings; null if the queue does not exist. If the queue has shards, returns the sums of the
   * counts, and the settings of the first shard.
   */
  async stats(): Promise<wire.Stats | null> {
    const [first, ...others] = (await this.#all((shard) => shard.stats())).filter((stats) => stats !== null);
    if (!first) return null;
    const total: Record<string, string | number | null> = { ...first };
    for (const stats of others) {
      for (const name of FIGURES) if (name in total) total[name] = Number(total[name]) + Number(stats[name as keyof wire.Stats]);
      const oldest = [total["oldestReadyMs"], stats.oldestReadyMs].filter((ms) => typeof ms === "number");
      total["oldestReadyMs"] = oldest.length > 0 ? Math.min(...oldest) : null;
    }
    return total as unknown as wire.Stats;
  }

  /** Changes settings in all shards. Settings that are not given stay as they are. 0 switches a setting off. */
  async configure(settings: wire.Settings): Promise<void> {
    await this.#all((shard) => shard.configure(settings));
  }

  /** Stops claims until `resume`. */
  async pause(): Promise<void> {
    return this.configure({ paused: true });
  }

  async resume(): Promise<void> {
    return this.configure({ paused: false });
  }

  /**
   * Returns the groups in the order of their names, or those with most ready jobs first (`largest`). The jobs without a
   * group form one group, even if they are in several shards.
   */
  async groups(options: wire.GroupsOptions = {}): Promise<wire.GroupInfo[]> {
    const pages = await this.#all((shard) => shard.groups(options));
    if (pages.length === 1) return pages.flat();
    const [nameless, named] = [pages.flat().filter(({ name }) => !name), pages.flat().filter(({ name }) => name)];
    const count = (state: "ready" | "delayed" | "claimed"): number => sum(nameless.map((group) => group[state]));
    const heldUntilMs = Math.max(...nameless.map((group) => group.heldUntilMs ?? 0)) || null;
    const all = { name: "", ready: count("ready"), delayed: count("delayed"), claimed: count("claimed"), heldUntilMs };
    const groups = [...(nameless.length > 0 ? [all] : []), ...named];
    const byName = (a: wire.GroupInfo, b: wire.GroupInfo): number => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
    groups.sort((a, b) => (options.largest ? b.ready - a.ready : 0) || byName(a, b));
    return groups.slice(0, options.count ?? GROUPS);
  }

  /**
   * Holds a group: during `wait`, none of its jobs is claimed. A `wait` of 0 ends the hold. The group `""` has the jobs
   * without a group. Returns false if no job is in the group.
   */
  async hold(group: string, wait: Duration): Promise<boolean> {
    if (group) return this.#send(this.#shard(group).hold(group, wait));
    return (await this.#all((shard) => shard.hold(group, wait))).includes(true);
  }

  /** Returns one queue for each shard. If the queue has no shards, returns one queue. */
  get shards(): Queue<T>[] {
    return this.#shards.map((_, at) => this.shard(at));
  }

  /** Returns the queue of a shard. `index` begins at 0. */
  shard(index: number): Queue<T> {
    return this.#queueOf(index);
  }

  /** Returns the commands of a job's shard. `name` is the job's group, or its id if it has no group. */
  #shard(name = ""): wire.QueueCalls<T> {
    return this.#shards[shardOf(name, this.#shards.length)] as wire.QueueCalls<T>;
  }

  async #all<R>(call: (shard: wire.QueueCalls<T>) => wire.Call<R>): Promise<R[]> {
    return Promise.all(this.#shards.map((shard) => this.#send(call(shard))));
  }

  /**
   * Sends a command for one job to the shard of the group. If no group is given, sends it to the shard of the id. If
   * the shard of the id does not have the job, sends the command to the first other shard that has it.
   */
  async #find<R>(id: string, group: string | undefined, call: (shard: wire.QueueCalls<T>) => wire.Call<R>): Promise<R> {
    const home = this.#shard(group || id);
    const reply = await this.#send(call(home));
    if (reply || group || this.#shards.length === 1) return reply;
    const others = this.#shards.filter((shard) => shard !== home);
    const jobs = await Promise.all(others.map((shard) => this.#send(shard.get(id))));
    const found = others.find((_, at) => jobs[at]);
    return found ? this.#send(call(found)) : reply;
  }

  /**
   * Sends a command for up to `count` jobs to the shard of the group. Without a group, sends the command to one shard
   * after the other, until it has changed `count` jobs. Returns the number of changed jobs.
   */
  async #share(
    group: string | undefined,
    count: number | undefined,
    call: (shard: wire.QueueCalls<T>, share: { count?: number }) => wire.Call<number>,
  ): Promise<number> {
    const share = count === undefined ? {} : { count };
    if (group || this.#shards.length === 1) return this.#send(call(this.#shard(group), share));
    let left = count ?? COUNT;
    for (const shard of this.#shards) if (left > 0) left -= await this.#send(call(shard, { count: left }));
    return (count ?? COUNT) - left;
  }

  async #send<R>(call: wire.Call<R>): Promise<R> {
    const reply = await this.#redis.send(call.key, call.words, "bytes");
    return decoded(() => call.read(reply));
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

/** Merges pages whose rows are in order. Returns the first `count` rows. */
function merged<R>(pages: readonly (readonly R[])[], count: number, isBefore: (a: R, b: R) => boolean): R[] {
  const heads = pages.map(() => 0);
  const found: R[] = [];
  while (found.length < count) {
    let first: { readonly page: number; readonly row: R } | undefined;
    for (const [page, rows] of pages.entries()) {
      const row = rows[heads[page] ?? 0];
      if (row !== undefined && (!first || isBefore(row, first.row))) first = { page, row };
    }
    if (!first) break;
    found.push(first.row);
    heads[first.page] = (heads[first.page] ?? 0) + 1;
  }
  return found;
}

/** Returns the names of the queues of this database. */
export async function queues(client: RedisClient, { after, count }: { after?: string; count?: number } = {}): Promise<string[]> {
  const words = ["ZQ.LIST"];
  if (after !== undefined) words.push("AFTER", after);
  if (count !== undefined) words.push("COUNT", whole(count, "count"));
  return list(await connectionOf(client).send(after ?? "", words)).map(text);
}
