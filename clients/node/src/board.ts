/** Leaderboards of several dimensions. */

import { type Connection, connectionOf, type RedisClient, type Reply, type Word } from "./connection.js";
import { fields, integer, list, text, whole } from "./values.js";
import * as wire from "./wire/boards.js";
import type { NameOf } from "./wire/boards.js";

export interface BoardOptions extends wire.Schema {
  /** Whether values are bigint, which is exact beyond 2^53. ioredis then needs `stringNumbers: true`. */
  readonly bigint?: boolean;
}

export interface RangeOptions {
  /** Whether the worst entry is the first. */
  readonly reverse?: boolean;
  readonly ranking?: wire.Ranking;
}

export interface BoardInfo {
  readonly members: number;
  /** The number of different tuples of values. */
  readonly distinct: number;
  readonly ties: string;
  readonly keep: number | null;
}

/**
 * A leaderboard: `new Board(redis, "medals", ["gold", "silver", "bronze"])`. Dimensions are compared in this order.
 * Entries name the dimensions: `{ member: "USA", rank: 0, values: { gold: 40, silver: 44, bronze: 42 } }`.
 */
export class Board<D extends string, V extends wire.Value = number> {
  readonly #redis: Connection;
  readonly #shape: wire.Shape<NameOf<D>, V>;

  constructor(
    client: RedisClient,
    readonly key: string,
    dimensions: readonly D[],
    private readonly options: BoardOptions = {},
  ) {
    this.#redis = connectionOf(client);
    const read = (options.bigint ? wire.big : wire.small) as (reply: Reply | undefined) => V;
    this.#shape = new wire.Shape(dimensions.map((dimension) => wire.dimension<NameOf<D>>(dimension)), read);
  }

  /** Creates the board. Does nothing if a board with the same schema exists. Throws an error if the schema differs. */
  async create(): Promise<void> {
    await this.#send(wire.create(this.key, this.#shape.dimensions, this.options));
  }

  /**
   * Sets a member's values. Returns the rank of the member. Returns null if the option `only` or the board's `keep`
   * prevents the member from being added.
   */
  async set(member: string, values: wire.Values<NameOf<D>>, options: wire.SetOptions = {}): Promise<number | null> {
    const reply = list(await this.#send(wire.set(this.key, options, true, [member, ...this.#shape.words(values)])));
    return wire.rank(reply[1]);
  }

  /** Sets the values of several members. Returns how many of them are new on the board. */
  async setMany(members: Iterable<readonly [string, wire.Values<NameOf<D>>]>, options: wire.SetOptions = {}): Promise<number> {
    const words = [...members].flatMap(([member, values]) => [member, ...this.#shape.words(values)]);
    return words.length === 0 ? 0 : integer(await this.#send(wire.set(this.key, options, false, words)));
  }

  /**
   * Adds to some of a member's values. A member that is not on the board starts with zeros. `rank` is null if `keep`
   * removes the member from the board.
   */
  async incr(
    member: string,
    by: { readonly [name in NameOf<D>]?: wire.Value },
  ): Promise<{ readonly rank: number | null; readonly values: wire.Entry<NameOf<D>, V>["values"] }> {
    const words = Object.entries<wire.Value | undefined>(by).flatMap(([name, value]) =>
      value === undefined ? [] : [name, value.toString()],
    );
    const [rank, ...values] = list(await this.#send(["ZLB.INCR", this.key, "WITHRANK", member, ...words]));
    return { rank: wire.rank(rank), values: this.#shape.values(values) };
  }

  /** Returns the entry of each member; null for a member that is not on the board. */
  async get(...members: string[]): Promise<(wire.Entry<NameOf<D>, V> | null)[]> {
    const rows = list(await this.#send(["ZLB.GET", this.key, ...members]));
    return members.map((member, at) => {
      const row = rows[at];
      if (row === null || row === undefined) return null;
      const [rank, ...values] = list(row);
      return { member, rank: integer(rank), values: this.#shape.values(values) };
    });
  }

  /** Returns a member's rank, 0 for the best; null if the member is not on the board. */
  async rank(member: string, ranking: wire.Ranking = "position"): Promise<number | null> {
    return wire.rank(await this.#send(["ZLB.RANK", this.key, member, ...wire.ranking(ranking)]));
  }

  /** Returns the rank that a new member with these values would get. */
  async rankOf(values: wire.Values<NameOf<D>>): Promise<number> {
    return integer(await this.#send(["ZLB.RANKOF", this.key, ...this.#shape.words(values)]));
  }

  /**
   * Returns the entries from index `start` through index `stop`, best first: `range(0, 9)` is the top ten, and -1 is
   * the last entry.
   */
  async range(
    start = 0,
    stop = -1,
    { reverse = false, ranking = "position" }: RangeOptions = {},
  ): Promise<wire.Entry<NameOf<D>, V>[]> {
    const words = ["ZLB.RANGE", this.key, whole(start, "start"), whole(stop, "stop"), ...(reverse ? ["REV"] : [])];
    return this.#entries(await this.#send([...words, ...wire.withRank(ranking)]));
  }

  /** Returns a member with `radius` neighbours on either side, best first; null if the member is not on the board. */
  async around(
    member: string,
    radius: number,
    { ranking = "position" }: Pick<RangeOptions, "ranking"> = {},
  ): Promise<wire.Entry<NameOf<D>, V>[] | null> {
    const words = ["ZLB.AROUND", this.key, member, whole(radius, "radius"), ...wire.withRank(ranking)];
    const reply = await this.#send(words);
    return reply === null ? null : this.#entries(reply);
  }

  /**
   * Writes the union of boards to this board. A member gets the sum of its values, or the best of them. Returns how
   * many members this board has.
   */
  async mergeFrom(keys: readonly string[], how: "sum" | "best" = "sum"): Promise<number> {
    return integer(await this.#send(["ZLB.MERGE", this.key, `${keys.length}`, ...keys, how.toUpperCase()]));
  }

  async remove(...members: string[]): Promise<number> {
    return integer(await this.#send(["ZLB.REM", this.key, ...members]));
  }

  async removeRange(start: number, stop: number): Promise<number> {
    return integer(await this.#send(["ZLB.REMRANGE", this.key, whole(start, "start"), whole(stop, "stop")]));
  }

  /** Removes all members, and keeps the schema. */
  async clear(): Promise<number> {
    return integer(await this.#send(["ZLB.CLEAR", this.key]));
  }

  async card(): Promise<number> {
    return integer(await this.#send(["ZLB.CARD", this.key]));
  }

  async info(): Promise<BoardInfo> {
    const found = fields(await this.#send(["ZLB.INFO", this.key]));
    return {
      members: integer(found.get("members")),
      distinct: integer(found.get("distinct")),
      ties: text(found.get("ties")),
      keep: wire.rank(found.get("keep")),
    };
  }

  #entries(reply: Reply): wire.Entry<NameOf<D>, V>[] {
    return list(reply).map((row) => this.#shape.entry(row));
  }

  #send(words: readonly Word[]): Promise<Reply> {
    return this.#redis.send(this.key, words, this.options.bigint ? "exact" : "text");
  }
}
