/** Builds ZEXP commands, and parses their replies. Does no I/O. */

import type { Reply, Word } from "../connection.js";
import { type Duration, duration, type Instant, instant, integer, list, text, whole } from "../values.js";

export type Life = { readonly ttl: Duration } | { readonly at: Instant };

export type When = "later" | "sooner";

export type AddOptions = Life & {
  /** Adds only new members, or changes only present ones. */
  readonly only?: "new" | "present";
  /** Allows only changes to a later expiry, or only changes to a sooner expiry. */
  readonly when?: When;
  /** Whether `add` also counts members whose expiry changed. */
  readonly changed?: boolean;
  /** If the set would have more live members than this, nothing is done. */
  readonly cap?: number;
};

export type ExpireOptions = Life & { readonly when?: When };

const life = (life: Life): string => ("at" in life ? instant(life.at) : duration(life.ttl));
const at = (life: Life): string[] => ("at" in life ? ["AT"] : []);
const condition = (when: When | undefined): string[] => (when ? [when === "later" ? "GT" : "LT"] : []);

export function add(key: string, members: readonly Word[], options: AddOptions): Word[] {
  const words: Word[] = ["ZEXP.ADD", key];
  if (options.only) words.push(options.only === "new" ? "NX" : "XX");
  words.push(...condition(options.when));
  if (options.changed) words.push("CH");
  if (options.cap !== undefined) words.push("CAP", whole(options.cap, "cap"));
  const expiry = life(options);
  return [...words, ...at(options), ...members.flatMap((member) => [expiry, member])];
}

export const expire = (key: string, members: readonly Word[], options: ExpireOptions): Word[] => [
  "ZEXP.EXPIRE",
  key,
  ...condition(options.when),
  ...at(options),
  life(options),
  ...members,
];

export interface MembersOptions {
  /** Only members that expire within this time. */
  readonly within?: Duration;
  readonly offset?: number;
  readonly count?: number;
}

export function members(key: string, options: MembersOptions, withTtl: boolean): Word[] {
  const words = ["ZEXP.MEMBERS", key];
  if (options.within !== undefined) words.push("WITHIN", duration(options.within));
  if (options.offset !== undefined || options.count !== undefined) {
    words.push("LIMIT", whole(options.offset ?? 0, "offset"), whole(options.count ?? -1, "count"));
  }
  if (withTtl) words.push("WITHPTTL");
  return words;
}

export interface AdoptOptions {
  readonly unit?: "s" | "ms";
  readonly plus?: Duration;
  readonly force?: boolean;
}

export function adopt(key: string, { unit, plus, force }: AdoptOptions): Word[] {
  const words = ["ZEXP.ADOPT", key];
  if (unit) words.push("UNIT", unit);
  if (plus !== undefined) words.push("PLUS", duration(plus));
  if (force) words.push("FORCE");
  return words;
}

/** Reads members with their TTLs: in RESP2 a flat array, in RESP3 an array of pairs. */
export function membersWithTtl(reply: Reply): [string, number][] {
  const items = list(reply);
  if (items.every((item) => Array.isArray(item))) {
    return items.map((item) => [text(list(item)[0]), integer(list(item)[1])]);
  }
  const found: [string, number][] = [];
  for (let at = 0; at + 1 < items.length; at += 2) found.push([text(items[at]), integer(items[at + 1])]);
  return found;
}
