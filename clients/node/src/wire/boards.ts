/** Builds ZLB commands, and parses their replies. Does no I/O. */

import type { Reply, Word } from "../connection.js";
import { integer, integerOrNull, list, text, whole } from "../values.js";

/**
 * The first word of a dimension, its name. A direction and a type can follow: `"gold"`, `"seconds asc float"`. By
 * default, the higher value is better, and values are integers.
 */
export type NameOf<Dimension extends string> = Dimension extends `${infer Name} ${string}` ? Name : Dimension;

export interface Dimension<Name extends string = string> {
  readonly name: Name;
  /** The options after the name: ASC or DESC, INT or FLOAT. */
  readonly words: readonly string[];
}

const WORDS = new Set(["ASC", "DESC", "INT", "FLOAT"]);

export function dimension<Name extends string>(text: string): Dimension<Name> {
  const [name = "", ...rest] = text.split(/\s+/);
  const words = rest.map((word) => word.toUpperCase());
  if (name === "" || words.some((word) => !WORDS.has(word))) {
    throw new RangeError(`expected a dimension such as "gold" or "seconds asc float", not "${text}"`);
  }
  return { name: name as Name, words };
}

export interface Schema {
  /**
   * Which of two members with equal values ranks first. `first` (default) and `last`: the first or last to reach the
   * values. `name`: the smaller name.
   */
  readonly ties?: "first" | "last" | "name";
  /** The board keeps only this number of members: the best ones. */
  readonly keep?: number;
}

/**
 * How members with equal values are ranked. Example: the ranks of four members, if the second and the third are equal.
 * `position`: 1, 2, 3, 4. `competition`: 1, 2, 2, 4. `dense`: 1, 2, 2, 3.
 */
export type Ranking = "position" | "competition" | "dense";

export type Value = number | bigint;
export type Values<Name extends string> = { readonly [name in Name]: Value };

export interface Entry<Name extends string, V extends Value> {
  readonly member: string;
  /** 0 is the best. */
  readonly rank: number;
  readonly values: { readonly [name in Name]: V };
}

/** The names, directions and types of a board's dimensions. The replies do not contain them. */
export class Shape<Name extends string, V extends Value> {
  constructor(
    readonly dimensions: readonly Dimension<Name>[],
    /** Reads an integer. The board's option `bigint` determines the type of the result. */
    private readonly whole: (reply: Reply | undefined) => V,
  ) {}

  words(values: Values<Name>): string[] {
    return this.dimensions.map(({ name, words }) => {
      const value = values[name];
      if (words.includes("FLOAT")) return `${value}`;
      return whole(value, name);
    });
  }

  values(reply: readonly Reply[]): { readonly [name in Name]: V } {
    const entries = this.dimensions.map(({ name, words }, at) => {
      const value = reply[at];
      return [name, words.includes("FLOAT") ? (Number(typeof value === "number" ? value : text(value)) as V) : this.whole(value)];
    });
    return Object.fromEntries(entries) as { readonly [name in Name]: V };
  }

  /** Reads an entry: `[rank, member, value ...]`. */
  entry(reply: Reply): Entry<Name, V> {
    const [rank, member, ...values] = list(reply);
    return { member: text(member), rank: integer(rank), values: this.values(values) };
  }
}

export function create(key: string, dimensions: readonly Dimension[], { ties, keep }: Schema): Word[] {
  const words = ["ZLB.CREATE", key];
  for (const dimension of dimensions) words.push("DIM", dimension.name, ...dimension.words);
  if (ties) words.push("TIES", ties.toUpperCase());
  if (keep !== undefined) words.push("KEEP", whole(keep, "keep"));
  return words;
}

export interface SetOptions {
  readonly only?: "new" | "present";
  /** Whether to set values only if they are better than the member's values. */
  readonly best?: boolean;
}

export function set(key: string, { only, best }: SetOptions, withRank: boolean, members: readonly Word[]): Word[] {
  const words: Word[] = ["ZLB.SET", key];
  if (only) words.push(only === "new" ? "NX" : "XX");
  if (best) words.push("BEST");
  if (withRank) words.push("WITHRANK");
  return [...words, ...members];
}

export const ranking = (ranking: Ranking): string[] => (ranking === "position" ? [] : [ranking.toUpperCase()]);

export const withRank = (how: Ranking): string[] => ["WITHRANK", ...ranking(how), "WITHVALUES"];

export const rank = (reply: Reply | undefined): number | null => integerOrNull(reply);

export function small(reply: Reply | undefined): number {
  const value = typeof reply === "number" ? reply : Number(text(reply));
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is beyond 2^53: make the board with { bigint: true }`);
  return value;
}

/** Reads an integer of any size, from text or from a number that the client did not round. */
export function big(reply: Reply | undefined): bigint {
  if (typeof reply === "number" && !Number.isSafeInteger(reply)) {
    throw new RangeError("the client rounded an integer beyond 2^53; create ioredis connections with stringNumbers: true");
  }
  return typeof reply === "bigint" ? reply : BigInt(text(reply));
}
