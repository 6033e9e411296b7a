/** A connection that a limiter waits for so long and no longer. */

import type { Connection, Reply, Word } from "../connection.js";
import { TimeoutError } from "../errors.js";
import { late } from "../late.js";

/**
 * The clients would queue commands while there is no connection, and send them afterwards: a service that lets requests through
 * without their limits would pile them up.
 */
export class PatientConnection {
  constructor(
    private readonly connection: Connection,
    private readonly patienceMs: number,
  ) {}

  /** Rejects if the promise takes longer than that. */
  within<T>(promise: Promise<T>): Promise<T> {
    return late(promise, this.patienceMs);
  }

  /** `onLate` gets a reply that comes after the time is up. */
  async send(key: string, words: readonly Word[], onLate?: (reply: Reply) => void): Promise<Reply> {
    const end = await this.#ready();
    const reply = this.connection.send(key, words);
    return late(reply, end - performance.now()).catch((thrown: unknown) => {
      if (onLate) reply.then(onLate, () => undefined);
      throw thrown;
    });
  }

  /** Sends what must not be carried out twice. */
  async sendOnce(key: string, words: readonly Word[]): Promise<Reply> {
    const end = await this.#ready();
    return late(this.connection.sendOnce(key, words), end - performance.now());
  }

  /** Waits for the connection. Returns when time is up. */
  async #ready(): Promise<number> {
    const end = performance.now() + this.patienceMs;
    while (!this.connection.isReady()) {
      const left = end - performance.now();
      if (left <= 0) throw new TimeoutError(`no connection to Redis for ${this.patienceMs} ms`);
      await nextLook(Math.min(left, 10));
    }
    return end;
  }
}

/** One timer for all who look whether the connection is back. */
let look: Promise<void> | undefined;
function nextLook(ms: number): Promise<void> {
  look ??= new Promise((resolve) =>
    setTimeout(() => {
      look = undefined;
      resolve();
    }, Math.max(1, ms)),
  );
  return look;
}
