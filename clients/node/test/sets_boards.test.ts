import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { test } from "node:test";
import { createClient } from "redis";
import { Board, ExpiringSet } from "zeitset";
import { withEach } from "./support/clients.js";
import { Server } from "./support/server.js";

withEach("members expire, are refreshed, counted and capped", async ({ redis }) => {
  const codes = new ExpiringSet(redis, "codes");
  assert.equal(await codes.add(["493811", "882015"], { ttl: "5m", cap: 3 }), 2);
  assert.equal(await codes.add("120374", { ttl: { minutes: 1 }, cap: 3 }), 1);
  assert.equal(await codes.add("700126", { ttl: "5m", cap: 3 }), null);
  assert.equal(await codes.add("120374", { ttl: "5m", only: "new" }), 0);
  assert.equal(await codes.add("120374", { ttl: "30s", when: "later", changed: true }), 0);
  assert.equal(await codes.card(), 3);
  assert.equal(await codes.contains("882015"), true);
  assert.deepEqual(await codes.containsEach("882015", "0"), [true, false]);
  assert.deepEqual(await codes.members(), ["120374", "493811", "882015"]);
  assert.deepEqual(await codes.members({ within: "2m" }), ["120374"]);
  assert.deepEqual(await codes.members({ offset: 1, count: 1 }), ["493811"]);
  assert.deepEqual(await codes.persist("493811", "0"), [true, false]);
  const ttls = await codes.ttl("882015", "493811", "0");
  assert.ok((ttls[0] ?? 0) > 0 && (ttls[0] ?? 0) <= 300_000);
  assert.deepEqual(ttls.slice(1), [Infinity, null]);
  assert.deepEqual([...(await codes.membersWithTtl()).keys()], ["120374", "882015", "493811"]);
  assert.deepEqual(await codes.expire(["120374", "0"], { at: new Date("2100-01-01T00:00:00Z") }), ["set", "missing"]);
  assert.deepEqual(await codes.expire("120374", { ttl: "1h", when: "later" }), ["kept"]);
  assert.deepEqual(await codes.expire("120374", { at: 1 }), ["removed"]);
  assert.equal((await codes.random())[0]?.length, 6);
  assert.deepEqual(await codes.pop(), ["882015"]);
  assert.equal(await codes.remove("493811", "0"), 1);
  assert.deepEqual(await codes.pop(), []);
});

withEach("a sorted set of times is adopted", async ({ redis, call }) => {
  await call("ZADD", "old", String(Date.now() / 1000), "ann");
  assert.equal(await new ExpiringSet(redis, "old").adopt({ unit: "s", plus: "1h" }), 1);
});

withEach("a board ranks by several dimensions, and names them", async ({ redis }) => {
  const medals = new Board(redis, "medals", ["gold", "silver", "bronze"]);
  await medals.create();
  await medals.create();
  assert.equal(await medals.set("Japan", { gold: 20, silver: 12, bronze: 13 }), 0);
  assert.equal(
    await medals.setMany([
      ["USA", { gold: 40, silver: 44, bronze: 42 }],
      ["China", { gold: 40, silver: 27, bronze: 24 }],
    ]),
    2,
  );
  assert.deepEqual(await medals.range(0, 0), [{ member: "USA", rank: 0, values: { gold: 40, silver: 44, bronze: 42 } }]);
  assert.deepEqual(await medals.incr("China", { gold: 1 }), { rank: 0, values: { gold: 41, silver: 27, bronze: 24 } });
  assert.deepEqual((await medals.around("USA", 1))?.map((entry) => entry.member), ["China", "USA", "Japan"]);
  assert.equal(await medals.around("Fiji", 1), null);
  assert.deepEqual((await medals.get("Fiji", "USA")).map((entry) => entry?.rank), [undefined, 1]);
  assert.equal(await medals.rank("Japan"), 2);
  assert.equal(await medals.rankOf({ gold: 100, silver: 0, bronze: 0 }), 0);
  assert.deepEqual((await medals.range(0, -1, { reverse: true })).map((entry) => entry.member), ["Japan", "USA", "China"]);
  const total = new Board(redis, "total", ["gold", "silver", "bronze"]);
  assert.equal(await total.mergeFrom(["medals"]), 3);
  assert.equal(await total.removeRange(2, 2), 1);
  assert.equal(await total.remove("USA"), 1);
  assert.equal(await total.clear(), 1);
  assert.equal(await total.card(), 0);
  assert.deepEqual(await medals.info(), { members: 3, distinct: 3, ties: "first", keep: null });
});

withEach("directions, floats, ties and the best n", async ({ redis }) => {
  const laps = new Board(redis, "laps", ["laps", "seconds asc float"], { ties: "last", keep: 2 });
  await laps.create();
  await laps.set("ann", { laps: 3, seconds: 61.5 });
  await laps.set("bob", { laps: 3, seconds: 60.25 });
  assert.equal(await laps.set("eve", { laps: 1, seconds: 1 }), null, "not among the best two");
  assert.equal(await laps.set("ann", { laps: 3, seconds: 99 }, { best: true }), 1);
  assert.deepEqual((await laps.get("ann"))[0]?.values, { laps: 3, seconds: 61.5 });
});

test("integers beyond 2^53 are exact as bigint, and refused as numbers", { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t);
  const nodeRedis = createClient({ url: server.url });
  nodeRedis.on("error", () => undefined);
  await nodeRedis.connect();
  const ioredis = new Redis(server.url, { stringNumbers: true });
  t.after(() => (nodeRedis.destroy(), ioredis.disconnect()));
  const big = 2n ** 62n + 1n;
  for (const client of [nodeRedis, ioredis]) {
    const board = new Board<"points", bigint>(client, "big", ["points"], { bigint: true });
    await board.create();
    await board.set("ann", { points: big });
    assert.equal((await board.get("ann"))[0]?.values.points, big);
    await assert.rejects(new Board(client, "big", ["points"]).get("ann"), RangeError);
  }
  const rounding = new Redis(server.url);
  t.after(() => rounding.disconnect());
  await assert.rejects(new Board<"points", bigint>(rounding, "big", ["points"], { bigint: true }).get("ann"), /stringNumbers/);
});
