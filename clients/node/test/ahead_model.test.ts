/**
 * Units ahead against a model of the server, in random histories. The model is slow, loses replies, and counts units.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Check, Limiter } from "zeitset";

/** Returns a function that returns random numbers from 0 to 1, the same for each seed (mulberry32). */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A limit of one key, whose window is longer than the test. */
class Server {
  taken = 0;
  /**
   * Units of calls whose reply was lost, and of refunds that did not arrive. They become available again when their
   * window ends.
   */
  lost = 0;
  calls = 0;
  readonly multi = (): null => null;

  constructor(
    private readonly limit: number,
    private readonly next: () => number,
    private readonly slownessMs: number,
    private readonly losses: number,
  ) {}

  readonly sendCommand = async (words: string[]): Promise<unknown> => {
    await sleep(this.next() * this.slownessMs);
    const fate = this.next();
    const isLost = fate < this.losses;
    const [command, , units = "0", , , cost = "1"] = words;
    if (command === "ZRL.REFUND") {
      assert.ok(Number(units) > 0);
      // If `isLost`, half of the refunds do not arrive. Of the other half, only the reply gets lost.
      if (isLost && fate < this.losses / 2) this.lost += Number(units);
      else this.taken -= Number(units);
      assert.ok(this.taken >= 0, "more is given back than was taken");
      return this.#reply(isLost, Number(units));
    }
    assert.equal(command, "ZRL.CHECK");
    this.calls += 1;
    const isAllowed = this.taken + Number(cost) <= this.limit;
    if (isAllowed) this.taken += Number(cost);
    if (isAllowed && isLost) this.lost += Number(cost);
    const left = this.limit - this.taken;
    return this.#reply(isLost, isAllowed ? [1, this.limit, left, 0, 30_000, Date.now() + 30_000] : [0, this.limit, left, 30_000, 30_000, 0]);
  };

  async #reply(isLost: boolean, reply: unknown): Promise<unknown> {
    await sleep(this.next() * this.slownessMs);
    if (isLost) throw new Error("the connection is lost");
    return reply;
  }
}

const SEED = Number(process.env["ZEITSET_SEED"] ?? Date.now() % 1e6);

test(`what is taken is handed out, given back or lost, and never more than the limit (ZEITSET_SEED=${SEED})`, { timeout: 120_000 }, async () => {
  const histories = Array.from({ length: 60 }, async (_, at) => {
    const next = random(SEED + at);
    const limit = [3, 40, 500, 20_000][Math.floor(next() * 4)] as number;
    const ahead = [1, 7, 200][Math.floor(next() * 3)] as number;
    const server = new Server(limit, next, next() < 0.5 ? 2 : 60, next() < 0.5 ? 0 : 0.1);
    // A hold of 50 ms: shorter or longer than a call, and much shorter than the test.
    const limiter = new Limiter(server, "model", `${limit}/5s`, { ahead, timeout: "10s" });
    const label = `history ${at}: limit ${limit}, ahead ${ahead}`;
    let given = 0;
    let decisions = 0;
    const client = async (): Promise<void> => {
      for (let n = 0; n < 60; n++) {
        const cost = next() < 0.8 ? 1 : 1 + Math.floor(next() * Math.min(limit, 12));
        const check: Check | undefined = await limiter.check("key", { cost }).catch(() => undefined);
        decisions += 1;
        if (check?.allowed) given += cost;
        assert.ok(given <= limit, label);
        if (check) assert.ok(check.remaining >= 0 && check.remaining <= limit, label);
        if (next() < 0.3) await sleep(next() * 40);
      }
    };
    await Promise.all(Array.from({ length: 1 + Math.floor(next() * 8) }, client));
    // Calls are in flight while the limiter closes.
    const last = Array.from({ length: 5 }, () => limiter.check("key").catch(() => undefined));
    await limiter.close();
    for (const check of await Promise.all(last)) given += check?.allowed ? 1 : 0;
    assert.equal(server.taken, given + server.lost, `${label}: books`);
    assert.ok(server.calls <= 2 * decisions, `${label}: ${server.calls} calls for ${decisions} decisions`);
  });
  await Promise.all(histories);
});
