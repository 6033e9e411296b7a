/** Queues, but for what workers do. */

import { type Codec, type CodecName, codecOf } from "./codec.js";
import { type Connection, connectionOf, type RedisClient } from "./connection.js";
import { type Duration, list, text, whole } from "./values.js";
import type { Telemetry } from "./telemetry.js";
import * as wire from "./wire/queues.js";

export interface QueueOptions<T> {
  /** `"json"` (default), `"bytes"`, or one of your own. */
  readonly codec?: CodecName | Codec<T>;
  /** `OpenTelemetry` of zeitset/otel. */
  readonly telemetry?: Telemetry | undefined;
}

/** `new Queue(redis, "mails")`: where jobs are pushed and looked at. */
export class Queue<T = any> {
  readonly #redis: Connection;
  readonly #telemetry: Telemetry | undefined;
  /** The same methods, which answer commands instead of sending them: for `job.chain`. */
  readonly calls: wire.QueueCalls<T>;

  constructor(
    client: RedisClient,
    readonly key: string,
    { codec, telemetry }: QueueOptions<T> = {},
  ) {
    this.#redis = connectionOf(client);
    this.#telemetry = telemetry;
    this.calls = new wire.QueueCalls(key, codecOf(codec), telemetry?.propagate ? () => telemetry.traceparent() : undefined);
  }

  /** Adds a job; answers its id. Null: you gave an id, and such a job is there. */
  async push(payload: T, options?: wire.PushOptions): Promise<string | null> {
    const [id] = await this.#pushes(1, async () => [await this.#send(this.calls.push(payload, options))]);
    return id ?? null;
  }

  /** Adds many jobs together: `pushMany([{ payload, id, delay … }, …])`. Answers their ids as `push` does. */
  async pushMany(jobs: Iterable<{ readonly payload: T } & wire.PushOptions>): Promise<(string | null)[]> {
    const all = [...jobs];
    return this.#pushes(all.length, async () => {
      const calls = all.map(({ payload, ...options }) => this.calls.push(payload, options));
      const replies = await this.#redis.pipeline(this.key, calls.map((call) => call.words), "bytes");
      return calls.map((call, at) => {
        const reply = replies[at] ?? null;
        if (reply instanceof Error) throw reply;
        return call.read(reply);
      });
    });
  }

  #pushes(count: number, push: () => Promise<(string | null)[]>): Promise<(string | null)[]> {
    return this.#telemetry ? this.#telemetry.pushes(this.key, count, push) : push();
  }

  /** Removes jobs, in whatever state; answers how many. */
  async cancel(...ids: string[]): Promise<number> {
    return this.#send(this.calls.cancel(...ids));
  }

  /** Another due time or priority for a job that waits; false if there is none, or it is claimed or dead. */
  async reschedule(id: string, options: wire.Due & { readonly priority?: number }): Promise<boolean> {
    return this.#send(this.calls.reschedule(id, options));
  }

  async get(id: string): Promise<wire.JobInfo<T> | null> {
    return this.#send(this.calls.get(id));
  }

  /** Jobs of a state in serving order. */
  async peek(state?: wire.State, options?: wire.PeekOptions): Promise<wire.Listed<T>[]> {
    return this.#send(this.calls.peek(state, options));
  }

  /** Dead letters back to ready: those named, or at most `count` (default 1,000). Answers how many. */
  async redrive(options?: wire.RedriveOptions): Promise<number> {
    return this.#send(this.calls.redrive(options));
  }

  /** Removes up to `count` (default 1,000) jobs of a state, oldest first. Answers how many; 0: done. */
  async clean(state: Exclude<wire.State, "claimed">, options?: wire.CleanOptions): Promise<number> {
    return this.#send(this.calls.clean(state, options));
  }

  /** Figures and settings; null if there is no such queue. */
  async stats(): Promise<wire.Stats | null> {
    return this.#send(this.calls.stats());
  }

  /** Settings that are not given stay as they are; 0 switches one off. */
  async configure(settings: wire.Settings): Promise<void> {
    return this.#send(this.calls.configure(settings));
  }

  /** No claims until `resume`. */
  async pause(): Promise<void> {
    return this.configure({ paused: true });
  }

  async resume(): Promise<void> {
    return this.configure({ paused: false });
  }

  async groups(options?: { count?: number; after?: string }): Promise<wire.GroupInfo[]> {
    return this.#send(this.calls.groups(options));
  }

  /** No job of this group (`""`: the jobs without one) is claimed for that long; 0 releases it. False: no job is in the group. */
  async hold(group: string, wait: Duration): Promise<boolean> {
    return this.#send(this.calls.hold(group, wait));
  }

  async #send<R>(call: wire.Call<R>): Promise<R> {
    return call.read(await this.#redis.send(call.key, call.words, "bytes"));
  }
}

/** The names of the queues of this database. */
export async function queues(client: RedisClient, { after, count }: { after?: string; count?: number } = {}): Promise<string[]> {
  const words = ["ZQ.LIST"];
  if (after !== undefined) words.push("AFTER", after);
  if (count !== undefined) words.push("COUNT", whole(count, "count"));
  return list(await connectionOf(client).send(after ?? "", words)).map(text);
}
