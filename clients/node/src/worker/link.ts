/** The connections of one pump, dropped together: one of its own, which waits for jobs, and the one that all pumps of a server share. */

import type { Address, Connection, Format, Own, Reply, Word } from "../connection.js";
import { asError, codeOf } from "../errors.js";
import { late } from "../late.js";
import { integer } from "../values.js";
import type { Place, Server } from "./place.js";

interface Opened {
  readonly server: Server;
  /** Waits for jobs. */
  readonly claims: Own;
  /** The client id of `claims`, by which its wait can be ended; undefined where it may change, or is not ours to know. */
  readonly claimsId: number | undefined;
  /** The slot is being moved to this server: it takes only commands that follow ASKING. */
  readonly isAsking: boolean;
}

/** Sent before a command. Where it fails, so does the command. */
const ASKING: readonly Word[] = ["ASKING"];

const ignore = (): void => undefined;

export class Link {
  #opened: Opened | undefined;
  /** What waits for replies, by how it is told that none will come. */
  readonly #pending = new Set<(error: Error) => void>();

  constructor(
    private readonly place: Place,
    /** One of the keys, which share a slot. */
    private readonly key: string,
    private readonly leaseMs: number,
  ) {}

  /** `asked`: the node that has the slot's keys already, though the slot is still another's. */
  async open(asked?: Address): Promise<void> {
    const server = await this.place.open(this.key, asked);
    const claims = server.own();
    try {
      await this.#late(claims.open());
      const claimsId = claims.isPinned ? await this.#late(idOf(claims, this.key)) : undefined;
      this.#opened = { server, claims, claimsId, isAsking: asked !== undefined };
    } catch (error) {
      claims.close();
      server.leave();
      throw error;
    }
  }

  /** Sends commands together. Fails if the connection does, or takes too long; an error reply is one of the replies. */
  async request(commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    const { server, isAsking } = this.#open();
    if (!isAsking) return server.pipeline(this.key, commands, format);
    const replies = await server.pipeline(this.key, commands.flatMap((command) => [ASKING, command]), format);
    return replies.filter((_, at) => at % 2 === 1);
  }

  async transaction(commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const { server, isAsking } = this.#open();
    if (isAsking) server.pipeline(this.key, [ASKING]).catch(ignore);
    return server.transaction(this.key, commands);
  }

  /** Sends a command that waits for as long as `blockMs`. */
  async wait(command: readonly Word[], blockMs: number): Promise<Reply> {
    const { claims, isAsking } = this.#open();
    if (isAsking) claims.send(this.key, ASKING).catch(ignore);
    return this.#late(claims.send(this.key, command, "bytes"), blockMs);
  }

  /**
   * How long a wait may be: where it cannot be ended, somebody who stops the worker waits for its end. A third of a lease, since
   * the lease of what it brings may have begun when it was sent.
   */
  get longestWaitMs(): number {
    return Math.min(this.#opened?.claimsId === undefined ? 1000 : 5000, this.leaseMs / 3);
  }

  /** Ends a wait, so that it answers at once. */
  async endWait(): Promise<void> {
    const { server, claimsId } = this.#open();
    if (claimsId !== undefined) await server.pipeline(this.key, [["CLIENT", "UNBLOCK", `${claimsId}`]]);
  }

  /** Ends the connection that waits, and all that waits for replies; with `isAll` also the one that is shared. */
  drop(isAll: boolean): void {
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.claims.close();
    opened?.server.leave();
    if (isAll) opened?.server.close();
    for (const abandon of this.#pending) abandon(new Error("the connection was dropped"));
  }

  #open(): Opened {
    if (!this.#opened) throw new Error("there is no connection");
    return this.#opened;
  }

  #late<T>(promise: Promise<T>, blockMs = 0): Promise<T> {
    return late(promise, blockMs + this.place.patienceMs, this.#pending);
  }
}

/** The node that an error names: `ASK 3999 127.0.0.1:6381`. */
export function askedBy(error: Error): Address | undefined {
  const [, host, port] = (codeOf(error) === "ASK" && /^ASK \d+ (.*):(\d+)$/.exec(error.message)) || [];
  return host && port ? { host, port: Number(port) } : undefined;
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
