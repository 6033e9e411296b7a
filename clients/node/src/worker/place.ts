/**
 * The servers that have the queues of a worker, and the connections that its pumps share: one to each server.
 *
 * In a cluster, the worker itself finds the node of each hash slot. A cluster client would hide at which node a claim
 * waits, so the worker could not end the wait. If a node is down, the client would also retry by its own rules.
 */

import { decoded } from "../boundary.js";
import type { Address, Connection, Format, Nodes, Own, Reply, Word } from "../connection.js";
import { asError } from "../errors.js";
import { late } from "../late.js";
import { slotOf } from "../shards.js";
import { integer, list, text } from "../values.js";

interface Range {
  readonly first: number;
  readonly last: number;
  readonly node: Address;
}

/** The connection to one server for all commands except claims that block. */
export class Server {
  #opened: Promise<void> | undefined;
  #users = 0;
  /** For each request that waits for a reply, a function that makes the request fail. */
  readonly #pending = new Set<(error: Error) => void>();

  constructor(
    private readonly control: Own,
    readonly own: () => Own,
    private readonly patienceMs: number,
    private readonly closed: () => void,
  ) {}

  /** Connects, unless another pump has connected. Each `open` needs a `leave`. */
  async open(): Promise<void> {
    this.#users += 1;
    this.#opened ??= this.#late(this.control.open());
    try {
      await this.#opened;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users === 0) this.close();
  }

  /**
   * Sends commands in one pipeline. Fails if the connection fails, or if the reply takes too long. Error replies are
   * among the replies.
   */
  async pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    return this.#late(this.control.pipeline(key, commands, format));
  }

  async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    return this.#late(this.control.transaction(key, commands));
  }

  /**
   * Ends the connection, so that no late reply is taken for the reply to another command. Requests that wait for a
   * reply fail.
   */
  close(): void {
    this.control.close();
    this.closed();
    for (const abandon of this.#pending) abandon(new Error("the connection was dropped"));
  }

  #late<T>(promise: Promise<T>): Promise<T> {
    return late(promise, this.patienceMs, this.#pending);
  }
}

export class Place {
  readonly #servers = new Map<string, Server>();
  #nodes: Nodes | undefined;
  /** Whether no known node replied to the last request for the slots. If so, the worker looks for new nodes. */
  #isLost = false;
  /** All known nodes by their names. `#silent` has the names of nodes that have not replied. */
  readonly #known = new Map<string, Address>();
  readonly #silent = new Set<string>();
  #slots: Promise<readonly Range[]> | undefined;

  constructor(
    private readonly client: Connection,
    /** How long a server may take to reply to a command that does not wait. */
    readonly patienceMs: number,
  ) {}

  /**
   * Connects to the server that has the key. In a cluster, connects to the node at the address `at`. If `at` is not
   * given, connects to the primary of the key's hash slot.
   */
  async open(key: string, at?: Address): Promise<Server> {
    const address = this.client.isCluster ? ((this.#nodes && at) ?? (await this.#find(slotOf(key)))) : undefined;
    const server = this.#at(address);
    await server.open();
    return server;
  }

  /** Forgets which nodes have the slots, because slots may have moved. */
  forget(): void {
    this.#slots = undefined;
  }

  #at(address: Address | undefined): Server {
    const name = address ? nameOf(address) : "";
    const own = (): Own => (address ? (this.#nodes as Nodes).own(address) : this.client.own());
    const known = this.#servers.get(name);
    if (known) return known;
    const server: Server = new Server(own(), own, this.patienceMs, () => {
      if (this.#servers.get(name) === server) this.#servers.delete(name);
    });
    this.#servers.set(name, server);
    return server;
  }

  async #find(slot: number): Promise<Address> {
    this.#slots ??= this.#ask();
    const asked = this.#slots;
    try {
      const found = (await asked).find(({ first, last }) => first <= slot && slot <= last);
      if (found) return found.node;
      throw new Error(`slot ${slot} has no node`);
    } catch (error) {
      if (this.#slots === asked) this.forget();
      throw error;
    }
  }

  /**
   * Asks the nodes for the slots, until one replies. The order is random, because a node that is cut off from the
   * cluster may reply wrongly.
   */
  async #ask(): Promise<readonly Range[]> {
    let problem = new Error("no node is known");
    if (!this.#nodes || this.#isLost) {
      const scout = this.client.scout();
      try {
        this.#nodes = await late(scout.open(), this.patienceMs);
        this.#learn(this.#nodes.addresses);
      } catch (thrown) {
        problem = asError(thrown);
      } finally {
        scout.close();
      }
    }
    if (!this.#nodes) throw problem;
    const order = [...this.#known.keys()].map((name) => ({ name, at: Math.random() + (this.#silent.has(name) ? 1 : 0) }));
    for (const { name } of order.sort((a, b) => a.at - b.at)) {
      try {
        const ranges = await this.#slotsBy(this.#known.get(name) as Address);
        this.#silent.delete(name);
        this.#isLost = false;
        return ranges;
      } catch (thrown) {
        problem = asError(thrown);
        this.#silent.add(name);
      }
    }
    this.#isLost = true;
    throw problem;
  }

  async #slotsBy(address: Address): Promise<readonly Range[]> {
    const server = this.#at(address);
    await server.open();
    try {
      const [reply = null] = await server.pipeline("", [["CLUSTER", "SLOTS"]]);
      if (reply instanceof Error) throw reply;
      return decoded(() => {
        const nodeOf = (row: Reply | undefined): Address => {
          const [host, port] = list(row);
          // A node that does not know its own address replies with an empty address.
          return { host: host ? text(host) : address.host, port: integer(port) };
        };
        return list(reply).map((row) => {
          const [first, last, primary, ...replicas] = list(row);
          const node = nodeOf(primary);
          this.#learn([node, ...replicas.map(nodeOf)]);
          return { first: integer(first), last: integer(last), node };
        });
      });
    } finally {
      server.leave();
    }
  }

  #learn(addresses: readonly Address[]): void {
    for (const address of addresses) this.#known.set(nameOf(address), address);
  }
}

const nameOf = ({ host, port }: Address): string => `${host}:${port}`;
