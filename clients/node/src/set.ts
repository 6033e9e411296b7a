/** Sets whose members expire. */

import { type Connection, connectionOf, type RedisClient, type Reply, type Word } from "./connection.js";
import { ProtocolError } from "./errors.js";
import { integer, integerOrNull, list, text, whole } from "./values.js";
import * as wire from "./wire/sets.js";

/**
 * The result of ZEXP.EXPIRE for a member. `kept`: the old expiry stays because of `when`. `removed`: the time is past.
 * `missing`: there is no such member.
 */
export type Expired = "set" | "kept" | "removed" | "missing";

const EXPIRED: ReadonlyMap<number, Expired> = new Map([
  [1, "set"],
  [0, "kept"],
  [2, "removed"],
  [-2, "missing"],
]);

/** A set in which each member has its own expiry: `new ExpiringSet(redis, "seen:mails")` */
export class ExpiringSet {
  readonly #redis: Connection;

  constructor(
    client: RedisClient,
    readonly key: string,
  ) {
    this.#redis = connectionOf(client);
  }

  /**
   * Adds members that live for `ttl` or until `at`. If a member is in the set, sets its expiry. Returns how many
   * members were added; with `changed`, how many were added or changed. If the set would have more members than `cap`,
   * does nothing and returns null.
   */
  async add(members: string | readonly string[], options: wire.AddOptions): Promise<number | null> {
    return integerOrNull(await this.#send(wire.add(this.key, many(members), options)));
  }

  /** Gives live members another expiry. Returns the result for each member. */
  async expire(members: string | readonly string[], options: wire.ExpireOptions): Promise<Expired[]> {
    return list(await this.#send(wire.expire(this.key, many(members), options))).map((code) => {
      const expired = EXPIRED.get(integer(code));
      if (!expired) throw new ProtocolError(`an unknown reply: ${String(code)}`);
      return expired;
    });
  }

  /** Removes the expiry of members. Returns for each member whether it is in the set. */
  async persist(...members: string[]): Promise<boolean[]> {
    return list(await this.#send(["ZEXP.PERSIST", this.key, ...members])).map((code) => integer(code) !== -2);
  }

  /** Returns the milliseconds until each member expires. `Infinity`: it has no expiry. Null: it is not in the set. */
  async ttl(...members: string[]): Promise<(number | null)[]> {
    return list(await this.#send(["ZEXP.PTTL", this.key, ...members])).map((ms) =>
      integer(ms) === -2 ? null : endless(integer(ms)),
    );
  }

  /** Removes members. Returns how many were in the set. */
  async remove(...members: string[]): Promise<number> {
    return integer(await this.#send(["ZEXP.REM", this.key, ...members]));
  }

  async contains(member: string): Promise<boolean> {
    return integer(await this.#send(["ZEXP.ISMEMBER", this.key, member])) === 1;
  }

  async containsEach(...members: string[]): Promise<boolean[]> {
    return list(await this.#send(["ZEXP.MISMEMBER", this.key, ...members])).map((is) => integer(is) === 1);
  }

  /** Returns the exact number of live members. */
  async card(): Promise<number> {
    return integer(await this.#send(["ZEXP.CARD", this.key]));
  }

  /** Returns live members, soonest to expire first. */
  async members(options: wire.MembersOptions = {}): Promise<string[]> {
    return list(await this.#send(wire.members(this.key, options, false))).map(text);
  }

  /** Returns the members that `members` returns, each with the milliseconds until it expires. `Infinity`: no expiry. */
  async membersWithTtl(options: wire.MembersOptions = {}): Promise<Map<string, number>> {
    const found = wire.membersWithTtl(await this.#send(wire.members(this.key, options, true)));
    return new Map(found.map(([member, ms]) => [member, endless(ms)]));
  }

  /** Returns random live members: up to `count` different ones. With a negative `count`, members may repeat. */
  async random(count = 1): Promise<string[]> {
    return list(await this.#send(["ZEXP.RANDMEMBER", this.key, whole(count, "count")])).map(text);
  }

  /** Removes and returns up to `count` members, soonest to expire first. */
  async pop(count = 1): Promise<string[]> {
    return list(await this.#send(["ZEXP.POP", this.key, whole(count, "count")])).map(text);
  }

  /** Turns a sorted set whose scores are times into an expiring set. Returns how many members are live. */
  async adopt(options: wire.AdoptOptions = {}): Promise<number> {
    return integer(await this.#send(wire.adopt(this.key, options)));
  }

  #send(words: readonly Word[]): Promise<Reply> {
    return this.#redis.send(this.key, words);
  }
}

const many = (members: string | readonly string[]): readonly string[] => (typeof members === "string" ? [members] : members);

const endless = (ms: number): number => (ms === -1 ? Infinity : ms);
