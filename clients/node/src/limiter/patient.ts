/** A connection with a time limit for each request of a limiter. */

import type { Connection, Reply, Word } from "../connection.js";
import { TimeoutError } from "../errors.js";
import { late } from "../late.js";

/**
 * Sends commands only while the client is connected, because a client without a connection queues them. In a service
 * that admits requests while Redis is away, this queue would grow without limit.
 */
export class PatientConnection {
  constructor(
    private readonly connection: Connection,
    private readonly patienceMs: number,
  ) {}

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

  /** Sends commands in one MULTI. Throws the first error reply. */
  async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<Reply[]> {
    const end = await this.#ready();
    const replies = await late(this.connection.transaction(key, commands), end - performance.now());
    return replies.map((reply) => {
      if (reply instanceof Error) throw reply;
      return reply;
    });
  }

  /** Waits for the connection. Returns the end of the time limit. */
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
