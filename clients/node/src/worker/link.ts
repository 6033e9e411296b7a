/** A worker's two connections, opened when they are needed and both dropped when one fails. */

import type { Connection, Format, Reply, Word } from "../connection.js";
import { asError, codeOf, TimeoutError } from "../errors.js";
import { integer } from "../values.js";

/** How long a server may take to answer a command that does not wait. */
const PATIENCE_MS = 10_000;

interface Opened {
  /** Waits for jobs. */
  readonly claims: Connection;
  /** The client id of `claims`, by which its wait can be ended; undefined where it may change, or is not ours to know. */
  readonly claimsId: number | undefined;
  /** Everything else. */
  readonly control: Connection;
}

export class Link {
  #opened: Opened | undefined;
  #opening: Promise<Opened> | undefined;

  constructor(
    private readonly client: Connection,
    /** All keys of a worker share a slot. */
    private readonly key: string,
  ) {}

  async open(): Promise<void> {
    await this.#open();
  }

  /** Sends commands together. Fails if the connection does, or takes too long; an error reply is one of the replies. */
  async request(commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    const { control } = await this.#open();
    return late(PATIENCE_MS, control.pipeline(this.key, commands, format));
  }

  async transaction(commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const { control } = await this.#open();
    return late(PATIENCE_MS, control.transaction(this.key, commands));
  }

  /** Sends a command that waits for as long as `blockMs`. */
  async wait(command: readonly Word[], blockMs: number): Promise<Reply> {
    const { claims } = await this.#open();
    return late(blockMs + PATIENCE_MS, claims.send(this.key, command, "bytes"));
  }

  /** How long a wait may be: where it cannot be ended, somebody who stops the worker waits for its end. */
  get longestWaitMs(): number {
    return this.#opened?.claimsId === undefined ? 1000 : 5000;
  }

  /** Ends a wait, so that it answers at once. */
  async endWait(): Promise<void> {
    const id = this.#opened?.claimsId;
    if (id !== undefined) await this.request([["CLIENT", "UNBLOCK", `${id}`]]);
  }

  drop(): void {
    this.#opened?.claims.close();
    this.#opened?.control.close();
    this.#opened = undefined;
  }

  async #open(): Promise<Opened> {
    if (this.#opened) return this.#opened;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #connect(): Promise<Opened> {
    const own: Connection[] = [];
    let isAbandoned = false;
    const connect = async (): Promise<Connection> => {
      const connection = await this.client.own();
      own.push(connection);
      if (isAbandoned) connection.close();
      return connection;
    };
    try {
      const [claims, control] = await late(PATIENCE_MS, Promise.all([connect(), connect()]));
      const claimsId = claims.isPinned ? await late(PATIENCE_MS, idOf(claims, this.key)) : undefined;
      this.#opened = { claims, control, claimsId };
      return this.#opened;
    } catch (error) {
      isAbandoned = true;
      for (const connection of own) connection.close();
      throw error;
    }
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

/** Fails if it takes longer than that. */
async function late<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no reply within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, end]);
  } finally {
    clearTimeout(timer);
  }
}
