/**
 * The two connections of a pump, which claims jobs from the queues of one slot. The first connection waits for jobs,
 * and belongs to this pump alone. All pumps of a server share the second connection.
 */

import { decoded } from "../boundary.js";
import type { Address, Connection, Format, Own, Reply, Word } from "../connection.js";
import { asError, codeOf } from "../errors.js";
import { late } from "../late.js";
import { integer } from "../values.js";
import type { Place, Server } from "./place.js";

interface Opened {
  readonly server: Server;
  /** The connection that waits for jobs. */
  readonly claims: Own;
  /**
   * The client id of `claims`, for CLIENT UNBLOCK. Undefined if the id may change, or if the user has no permission for
   * CLIENT ID.
   */
  readonly claimsId: number | undefined;
  /** Whether the slot is being moved to this server. The server then takes only commands that follow ASKING. */
  readonly isAsking: boolean;
}

/**
 * While a slot is moved to a server, the server requires ASKING before each command. The reply to ASKING is ignored: if
 * ASKING fails, the next command fails, too.
 */
const ASKING: readonly Word[] = ["ASKING"];

const ignore = (): void => undefined;

export class Link {
  #opened: Opened | undefined;
  /** For each request that waits for a reply, a function that makes the request fail. */
  readonly #pending = new Set<(error: Error) => void>();

  constructor(
    private readonly place: Place,
    /** One of the keys of the queues. In a cluster, the hash slot of this key determines the node to connect to. */
    private readonly key: string,
    private readonly leaseMs: number,
  ) {}

  /**
   * Connects. `asked`: the node that an ASK error names. That node already has some keys of the slot, although the slot
   * still belongs to another node.
   */
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

  /**
   * Sends commands in one pipeline. Fails if the connection fails, or if the reply takes too long. Error replies are
   * among the replies.
   */
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

  async wait(command: readonly Word[], blockMs: number): Promise<Reply> {
    const { claims, isAsking } = this.#open();
    if (isAsking) claims.send(this.key, ASKING).catch(ignore);
    return this.#late(claims.send(this.key, command, "bytes"), blockMs);
  }

  /**
   * The longest BLOCK of a claim. If the worker cannot end the claim by CLIENT UNBLOCK, BLOCK is short, because the
   * worker must wait for the claim before it stops. BLOCK is at most a third of the lease, because the worker counts
   * the lease of a claimed job from the moment at which it sent the claim.
   */
  get longestWaitMs(): number {
    return Math.min(this.#opened?.claimsId === undefined ? 1000 : 5000, this.leaseMs / 3);
  }

  /** Ends the wait of a claim, so that the server replies at once. */
  async endWait(): Promise<void> {
    const { server, claimsId } = this.#open();
    if (claimsId !== undefined) await server.pipeline(this.key, [["CLIENT", "UNBLOCK", `${claimsId}`]]);
  }

  /**
   * Ends the connection that waits for jobs, and makes waiting requests fail. With `isAll`, also ends the shared
   * connection.
   */
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

/** Returns the node that an ASK error names: `ASK 3999 127.0.0.1:6381`. */
export function askedBy(error: Error): Address | undefined {
  const [, host, port] = (codeOf(error) === "ASK" && /^ASK \d+ (.*):(\d+)$/.exec(error.message)) || [];
  return host && port ? { host, port: Number(port) } : undefined;
}

async function idOf(connection: Connection, key: string): Promise<number | undefined> {
  try {
    const reply = await connection.send(key, ["CLIENT", "ID"]);
    return decoded(() => integer(reply));
  } catch (thrown) {
    // The user has no permission for CLIENT ID.
    if (codeOf(asError(thrown)) === "NOPERM") return undefined;
    throw thrown;
  }
}
