/** A worker's two connections, opened when they are needed and both dropped when one fails. */

import type { Connection, Format, Own, Reply, Word } from "../connection.js";
import { asError, codeOf } from "../errors.js";
import { late } from "../late.js";
import { integer } from "../values.js";

interface Opened {
  /** Waits for jobs. */
  readonly claims: Own;
  /** The client id of `claims`, by which its wait can be ended; undefined where it may change, or is not ours to know. */
  readonly claimsId: number | undefined;
  /** Everything else. */
  readonly control: Own;
}

export class Link {
  #opened: Opened | undefined;
  /** What waits for replies, by how it is told that none will come. */
  readonly #pending = new Set<(error: Error) => void>();
  /** How long a server may take to answer a command that does not wait: leaves time to reconnect before leases expire. */
  readonly #patienceMs: number;

  constructor(
    private readonly client: Connection,
    private readonly leaseMs: number,
  ) {
    this.#patienceMs = Math.min(10_000, Math.max(1000, leaseMs / 3));
  }

  async open(key: string): Promise<void> {
    const [claims, control] = [this.client.own(), this.client.own()];
    try {
      await this.#late(Promise.all([claims.open(), control.open()]));
      const claimsId = claims.isPinned ? await this.#late(idOf(claims, key)) : undefined;
      this.#opened = { claims, control, claimsId };
    } catch (error) {
      claims.close();
      control.close();
      throw error;
    }
  }

  /** Sends commands on a key together. Fails if the connection does, or takes too long; an error reply is one of the replies. */
  async request(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    return this.#late(this.#open().control.pipeline(key, commands, format));
  }

  async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    return this.#late(this.#open().control.transaction(key, commands));
  }

  /** Sends a command that waits for as long as `blockMs`. */
  async wait(key: string, command: readonly Word[], blockMs: number): Promise<Reply> {
    return this.#late(this.#open().claims.send(key, command, "bytes"), blockMs);
  }

  /**
   * How long a wait may be: where it cannot be ended, somebody who stops the worker waits for its end. A third of a lease, since
   * the lease of what it brings may have begun when it was sent.
   */
  get longestWaitMs(): number {
    return Math.min(this.#opened?.claimsId === undefined ? 1000 : 5000, this.leaseMs / 3);
  }

  /** Ends a wait, so that it answers at once. */
  async endWait(key: string): Promise<void> {
    const id = this.#opened?.claimsId;
    if (id !== undefined) await this.request(key, [["CLIENT", "UNBLOCK", `${id}`]]);
  }

  /** Ends the connections, on which a later reply could be taken for another command's, and all that waits for replies. */
  drop(): void {
    this.#opened?.claims.close();
    this.#opened?.control.close();
    this.#opened = undefined;
    for (const abandon of this.#pending) abandon(new Error("the connection was dropped"));
  }

  #open(): Opened {
    if (!this.#opened) throw new Error("there is no connection");
    return this.#opened;
  }

  #late<T>(promise: Promise<T>, blockMs = 0): Promise<T> {
    return late(promise, blockMs + this.#patienceMs, this.#pending);
  }
}

async function idOf(connection: Connection, key: string): Promise<number | undefined> {
  try {
    return integer(await connection.send(key, ["CLIENT", "ID"]));
  } catch (thrown) {
    // This user may not ask.
    if (codeOf(asError(thrown)) === "NOPERM") return undefined;
    throw thrown;
  }
}
