/** A connection with a time limit for each request of a limiter. */

import type { Connection, Reply, Word } from "../connection.js";
import { TimeoutError } from "../errors.js";
import { late } from "../late.js";

/**
 * Without a connection, the clients would queue commands, and send them later. If a service admits requests while Redis
 * is away, their commands would pile up.
 */
export class PatientConnection {
  constructor(
    private readonly connection: Connection,
    private readonly patienceMs: number,
  ) {}

  /** Rejects if the promise takes longer than the time limit. */
  within<T>(promise: Promise<T>): Promise<T> {
    return late(promise, this.patienceMs);
  }

  /** Sends a command. If the reply comes after the time limit, `onLate` gets it. */
  async send(key: string, words: readonly Word[], onLate?: (reply: Reply) => void): Promise<Reply> {
    const end = await this.#ready();
    const reply = this.connection.send(key, words);
    return late(reply, end - performance.now()).catch((thrown: unknown) => {
      if (onLate) reply.then(onLate, () => undefined);
      throw thrown;
    });
  }

  /** Sends a command that must not be carried out twice. */
  async sendOnce(key: string, words: readonly Word[]): Promise<Reply> {
    const end = await this.#ready();
    return late(this.connection.sendOnce(key, words), end - performance.now());
  }

  /** Waits for the connection. Returns the moment at which the time is up. */
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

/** One timer for all requests that wait for a connection. */
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
