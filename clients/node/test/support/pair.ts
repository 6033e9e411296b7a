/**
 * A primary and its replica. The class knows which writes the replica certainly has.
 *
 * Replication is asynchronous, so a failover may lose writes that the primary has just accepted. The library cannot
 * prevent this. So the class sends PUBLISH and WAIT again and again. If WAIT succeeds, the replica has all writes of
 * the primary from before the PUBLISH. Commands that the primary may have carried out after the last success are in
 * doubt.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Proxy } from "./proxy.js";
import { Server, type Test } from "./server.js";

export class Pair {
  readonly #doubts: (readonly [replicatedMs: number, killedMs: number])[] = [];
  #replicatedMs = Date.now();
  #isOver = false;

  private constructor(
    public primary: Server,
    public replica: Server,
    /** The proxy between the replica and its primary. */
    private readonly link: Proxy,
    /** Proxies that lead to the primary, as a virtual address does. */
    readonly proxies: readonly Proxy[],
  ) {}

  static async start(test: Test, count: number): Promise<Pair> {
    const [primary, replica] = [await Server.start(test), await Server.start(test)];
    const [link, ...proxies] = await Promise.all(Array.from({ length: count + 1 }, () => Proxy.start(test, primary.port)));
    const pair = new Pair(primary, replica, link!, proxies);
    await replica.ask(`REPLICAOF 127.0.0.1 ${link!.port}`);
    while (!(await pair.isInSync())) await sleep(50);
    test.after(() => void (pair.#isOver = true));
    void pair.#confirm();
    return pair;
  }

  async isInSync(): Promise<boolean> {
    return (await this.replica.ask("INFO replication")).includes("master_link_status:up");
  }

  /**
   * Kills the primary. `behindMs`: how long the replica gets no writes before the kill. `lateMs`: how long clients
   * reach the replica before it is promoted.
   */
  async failOver(behindMs: number, lateMs: number): Promise<void> {
    this.link.isPartitioned = true;
    await sleep(behindMs);
    await this.primary.kill();
    this.#doubts.push([this.#replicatedMs, Date.now()]);
    [this.primary, this.replica] = [this.replica, this.primary];
    for (const proxy of [this.link, ...this.proxies]) proxy.target = this.primary.port;
    this.link.isPartitioned = false;
    await sleep(lateMs);
    while (!(await this.primary.ask("REPLICAOF NO ONE")).startsWith("+OK")) await sleep(50);
    await this.replica.run("--replicaof", "127.0.0.1", `${this.link.port}`);
  }

  /** Returns whether the replica may lack writes of the server from between these moments. */
  isInDoubt(earliestMs: number, latestMs: number): boolean {
    return this.#doubts.some(([replicatedMs, killedMs]) => earliestMs <= killedMs && latestMs >= replicatedMs);
  }

  get doubtSeconds(): number {
    return Math.round(this.#doubts.reduce((sum, [replicatedMs, killedMs]) => sum + killedMs - replicatedMs, 0) / 1000);
  }

  async #confirm(): Promise<void> {
    while (!this.#isOver) {
      const { primary } = this;
      const redis = new Redis(primary.url, { lazyConnect: true, retryStrategy: () => null, commandTimeout: 2000 });
      redis.on("error", () => undefined);
      try {
        await redis.connect();
        while (primary === this.primary && !this.#isOver) {
          const askedMs = Date.now();
          // A PUBLISH is replicated, and needs no memory.
          await redis.publish("ledger", "");
          if ((await redis.wait(1, 1000)) === 1 && primary === this.primary) this.#replicatedMs = askedMs;
          await sleep(20);
        }
      } catch {
        await sleep(20);
      }
      redis.disconnect();
    }
  }
}
