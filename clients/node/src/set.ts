/** Sets whose members expire. */

import { type Connection, connectionOf, type RedisClient, type Reply, type Word } from "./connection.js";
import { integer, integerOrNull, list, text, whole } from "./values.js";
import * as wire from "./wire/sets.js";

/** What ZEXP.EXPIRE did with a member: set its expiry, kept it because of `when`, removed it as the time is past, or did not find it. */
export type Expired = "set" | "kept" | "removed" | "missing";

const EXPIRED: ReadonlyMap<number, Expired> = new Map([
  [1, "set"],
  [0, "kept"],
  [2, "removed"],
  [-2, "missing"],
]);

/** `new ExpiringSet(redis, "seen:mails")` */
export class ExpiringSet {
  readonly #redis: Connection;

  constructor(
    client: RedisClient,
    readonly key: string,
  ) {
    this.#redis = connectionOf(client);
  }

  /**
   * Adds members that live for `ttl` or until `at`; of those that are in, sets the expiry. Answers how many are new (with `changed`:
   * new or changed). Null: `cap` is reached, and nothing was done.
   */
  async add(members: string | readonly string[], options: wire.AddOptions): Promise<number | null> {
    return integerOrNull(await this.#send(wire.add(this.key, many(members), options)));
  }

  /** Gives live members another expiry; answers what happened to each. */
  async expire(members: string | readonly string[], options: wire.ExpireOptions): Promise<Expired[]> {
    return list(await this.#send(wire.expire(this.key, many(members), options))).map((code) => {
      const expired = EXPIRED.get(integer(code));
      if (!expired) throw new TypeError(`an unknown reply: ${String(code)}`);
      return expired;
    });
  }

  /** Lets members live without an expiry; answers for each whether it is in. */
  async persist(...members: string[]): Promise<boolean[]> {
    return list(await this.#send(["ZEXP.PERSIST", this.key, ...members])).map((code) => integer(code) !== -2);
  }

  /** The milliseconds that each member has left: `Infinity` without an expiry, null if it is not in. */
  async ttl(...members: string[]): Promise<(number | null)[]> {
    return list(await this.#send(["ZEXP.PTTL", this.key, ...members])).map((ms) =>
      integer(ms) === -2 ? null : endless(integer(ms)),
    );
  }

  /** Removes members; answers how many were in. */
  async remove(...members: string[]): Promise<number> {
    return integer(await this.#send(["ZEXP.REM", this.key, ...members]));
  }

  async contains(member: string): Promise<boolean> {
    return integer(await this.#send(["ZEXP.ISMEMBER", this.key, member])) === 1;
  }

  async containsEach(...members: string[]): Promise<boolean[]> {
    return list(await this.#send(["ZEXP.MISMEMBER", this.key, ...members])).map((is) => integer(is) === 1);
  }

  /** How many members are live, exactly. */
  async card(): Promise<number> {
    return integer(await this.#send(["ZEXP.CARD", this.key]));
  }

  /** Live members, soonest to expire first. */
  async members(options: wire.MembersOptions = {}): Promise<string[]> {
    return list(await this.#send(wire.members(this.key, options, false))).map(text);
  }

  /** The same with the milliseconds that each has left (`Infinity` without an end). */
  async membersWithTtl(options: wire.MembersOptions = {}): Promise<Map<string, number>> {
    const found = wire.membersWithTtl(await this.#send(wire.members(this.key, options, true)));
    return new Map(found.map(([member, ms]) => [member, endless(ms)]));
  }

  /** Live members at random: up to `count` different ones; negative: with repetitions. */
  async random(count = 1): Promise<string[]> {
    return list(await this.#send(["ZEXP.RANDMEMBER", this.key, whole(count, "count")])).map(text);
  }

  /** Removes and answers members, soonest to expire first. */
  async pop(count = 1): Promise<string[]> {
    return list(await this.#send(["ZEXP.POP", this.key, whole(count, "count")])).map(text);
  }

  /** Makes an expiring set of a sorted set whose scores are times; answers how many members are live. */
  async adopt(options: wire.AdoptOptions = {}): Promise<number> {
    return integer(await this.#send(wire.adopt(this.key, options)));
  }

  #send(words: readonly Word[]): Promise<Reply> {
    return this.#redis.send(this.key, words);
  }
}

const many = (members: string | readonly string[]): readonly string[] => (typeof members === "string" ? [members] : members);

const endless = (ms: number): number => (ms === -1 ? Infinity : ms);
