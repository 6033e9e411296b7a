/**
 * Only this module distinguishes node-redis and ioredis. It makes a {@link Connection} from a client, a cluster, a
 * Sentinel client or a pool of either library.
 *
 * Commands that reply at once use the caller's client. A worker opens its own connections ({@link Connection.own}),
 * which differ in three ways:
 * - They have no timeouts, because a claim may wait longer than the client's timeouts.
 * - They do not reconnect by themselves. Requests that wait for a reply fail at once. The worker knows which commands
 *   it may send again, and connects to the current primary.
 * - They queue no commands while there is no connection.
 */

import { Bounded } from "./boundary.js";
import { asError, codeOf, describe, lost, OutcomeUnknown, passes } from "./errors.js";

/** One word of a command. The code that builds a command converts numbers to strings. */
export type Word = string | Buffer;

/** An unparsed reply, as the clients return it for RESP2 and RESP3. */
export type Reply =
  | string
  | number
  | bigint
  | Buffer
  | null
  | readonly Reply[]
  | ReadonlySet<Reply>
  | ReadonlyMap<Reply, Reply>
  | { readonly [name: string]: Reply };

/**
 * The types in replies:
 * - `text`: bulk strings are strings.
 * - `bytes`: bulk strings are buffers.
 * - `exact`: node-redis returns integers as strings, because it would round numbers beyond 2^53. For ioredis, `exact`
 *   is the same as `text`.
 */
export type Format = "text" | "bytes" | "exact";

/** A node-redis client, pool, cluster or Sentinel client (version 5 or later). */
export interface NodeRedisClient {
  sendCommand(...words: never[]): Promise<unknown>;
  multi(...routing: never[]): unknown;
}

/** An ioredis client or cluster (version 5 or later). */
export interface IoRedisClient {
  call(command: string, ...words: never[]): Promise<unknown>;
  callBuffer(command: string, ...words: never[]): Promise<unknown>;
  duplicate(...overrides: never[]): unknown;
}

export type RedisClient = NodeRedisClient | IoRedisClient;

export interface Connection {
  /** Sends one command; in a cluster, to the node that has `key`. */
  send(key: string, words: readonly Word[], format?: Format): Promise<Reply>;
  /**
   * Sends a command at most once. If the connection is lost before the reply, rejects with {@link OutcomeUnknown}.
   * `send` does the same for commands that change something.
   */
  sendOnce(key: string, words: readonly Word[], format?: Format): Promise<Reply>;
  /** Whether `sendOnce` can guarantee to send a command at most once. */
  readonly canSendOnce: boolean;
  /** Sends commands together. Each command fails or succeeds by itself. */
  pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]>;
  /**
   * Sends commands in one MULTI. If the server refuses a command, it carries out none of them, and the promise rejects
   * with that command's error.
   */
  transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]>;
  /** Whether the client is connected now. Returns true if the client library does not show this. */
  isReady(): boolean;
  /** Whether this is a cluster, in which all keys of a command must be in one slot. */
  readonly isCluster: boolean;
  /** Returns a new connection that finds the nodes of a cluster. */
  scout(): Scout;
  /** Whether all commands use one socket, which is never replaced, so that the client id never changes. */
  readonly isPinned: boolean;
  /**
   * Returns a new connection to the same server. The caller must open it. In a cluster, call {@link Nodes.own}
   * instead.
   */
  own(): Own;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The nodes of a cluster, and connections to them. */
export interface Nodes {
  /** The nodes that the client knows. */
  readonly addresses: readonly Address[];
  own(address: Address): Own;
}

export interface Scout {
  open(): Promise<Nodes>;
  close(): void;
}

/** Maps `host:port`, by which the cluster names a node, to the address at which the client reaches the node. */
type AddressMap = Readonly<Record<string, Address>> | ((address: string) => Address | null | undefined);

function mapped(address: Address, map: AddressMap | undefined): Address {
  const name = `${address.host}:${address.port}`;
  return (typeof map === "function" ? map(name) : map?.[name]) ?? address;
}

export interface Own extends Connection {
  /** Connects. Fails with the error that prevented the connection. */
  open(): Promise<void>;
  /** Ends the connection, even while it is being opened. Requests that wait for a reply fail. */
  close(): void;
}

export function connectionOf(client: RedisClient): Connection {
  const any = client as unknown as Record<string, unknown>;
  if (typeof any["call"] === "function" && typeof any["callBuffer"] === "function") {
    const ioredis = client as unknown as IoRedis;
    const { keyPrefix, redisOptions } = ioredis.options ?? {};
    if (keyPrefix || redisOptions?.keyPrefix) {
      throw new TypeError('ioredis would ignore its keyPrefix in most commands: pass redis.duplicate({ keyPrefix: "" }), and whole keys');
    }
    return new Bounded(ioredis.isCluster === true ? new IoRedisCluster(ioredis) : new IoRedisConnection(ioredis));
  }
  if (typeof any["sendCommand"] === "function" && typeof any["multi"] === "function") {
    return new Bounded(new NodeRedisConnection(client as unknown as NodeRedis));
  }
  throw new TypeError("expected a client of node-redis or ioredis");
}

const ignore = (): void => undefined;

// --- node-redis --------------------------------------------------------------------------------------------------------------

type NodeRedisKind = "client" | "cluster" | "sentinel";

interface NodeRedisMulti {
  addCommand(...words: unknown[]): NodeRedisMulti;
  exec(): Promise<(Reply | Error)[]>;
}

interface NodeRedis {
  sendCommand(...words: unknown[]): Promise<Reply>;
  multi(routing?: string): NodeRedisMulti;
  duplicate?(overrides: object): NodeRedis;
  connect(): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
  destroy(): unknown;
  readonly isReady?: boolean;
  readonly options?: { readonly socket?: object };
  /** Of a Sentinel client: calls the function with the client of the master, and again after errors. */
  readonly _execute?: Execute;
}

type Execute = (isReadonly: boolean, send: (master: NodeRedis) => Promise<Reply>) => Promise<Reply>;

/** The errors with which node-redis refuses a command before it sends the command. */
const UNSENT = new Set(["ClientClosedError", "ClientOfflineError", "AbortError"]);

interface NodeRedisCluster extends NodeRedis {
  readonly masters: readonly (Address & object)[];
  nodeClient(node: object): Promise<NodeRedis>;
  readonly _options?: { readonly nodeAddressMap?: AddressMap };
}

/** node-redis names the type of a reply by the first byte of the reply. */
const INTEGER = ":".charCodeAt(0);
const BULK = "$".charCodeAt(0);

/** The type mappings of each format. Each command sets them, so the mappings of the caller's client have no effect. */
const FORMATS: Record<Format, object> = {
  text: { typeMapping: {} },
  bytes: { typeMapping: { [BULK]: Buffer } },
  exact: { typeMapping: { [INTEGER]: String } },
};

class NodeRedisConnection implements Own {
  readonly #client: NodeRedis;
  readonly #kind: NodeRedisKind;

  constructor(client: NodeRedis) {
    this.#client = client;
    const any = client as unknown as Record<string, unknown>;
    if (typeof any["nodeClient"] === "function") this.#kind = "cluster";
    else if (typeof any["getSentinelNode"] === "function") this.#kind = "sentinel";
    else this.#kind = "client";
  }

  send(key: string, words: readonly Word[], format: Format = "text"): Promise<Reply> {
    const options = FORMATS[format];
    switch (this.#kind) {
      case "client":
        return this.#client.sendCommand(words, options);
      case "sentinel":
        return this.#client.sendCommand(false, words, options);
      case "cluster":
        return this.#client.sendCommand(key, false, words, options);
    }
  }

  async sendOnce(key: string, words: readonly Word[], format: Format = "text"): Promise<Reply> {
    try {
      if (this.#kind === "sentinel" && this.#client._execute) return await this.#sendOnceToMaster(words, format);
      return await this.send(key, words, format);
    } catch (thrown) {
      throw outcomeOf(thrown, words, !UNSENT.has(nameOf(thrown)));
    }
  }

  /** Sends a command through a Sentinel client, which would repeat a command whose reply got lost. */
  #sendOnceToMaster(words: readonly Word[], format: Format): Promise<Reply> {
    let earlier: unknown;
    return (this.#client._execute as Execute)(false, async (master) => {
      if (earlier !== undefined) throw earlier;
      try {
        return await master.sendCommand(words, FORMATS[format]);
      } catch (thrown) {
        if (codeOf(asError(thrown)) === undefined) earlier = thrown; // an error reply: the server has not carried it out
        throw thrown;
      }
    });
  }

  get canSendOnce(): boolean {
    return this.#kind !== "sentinel" || this.#client._execute !== undefined;
  }

  /** Sends several commands. node-redis sends all commands of one event loop turn together. */
  pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    return settled(commands.map((words) => this.send(key, words, format)));
  }

  async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const multi = this.#kind === "cluster" ? this.#client.multi(key) : this.#client.multi();
    for (const words of commands) {
      if (this.#kind === "client") multi.addCommand(words);
      else if (this.#kind === "cluster") multi.addCommand(key, false, words);
      else multi.addCommand(false, words);
    }
    try {
      return await multi.exec();
    } catch (thrown) {
      // The server carried out all commands, and some of them failed.
      const { replies } = thrown as { replies?: (Reply | Error)[] };
      if (Array.isArray(replies)) return replies;
      throw thrown;
    }
  }

  isReady(): boolean {
    return this.#client.isReady ?? true;
  }

  get isPinned(): boolean {
    return this.#kind === "client";
  }

  get isCluster(): boolean {
    return this.#kind === "cluster";
  }

  scout(): Scout {
    const scout = this.#client.duplicate?.({ minimizeConnections: true }) as NodeRedisCluster;
    const open = async (): Promise<Nodes> => {
      await opened(scout);
      const { masters: addresses, _options: options } = scout;
      // Takes the node that connects first, because all nodes have the same options.
      const node = await Promise.any(addresses.map((master) => scout.nodeClient(master)));
      const own = (address: Address): Own => new NodeRedisConnection(node).own(mapped(address, options?.nodeAddressMap));
      return { addresses, own };
    };
    return { open, close: () => closed(scout) };
  }

  own(address?: Address): Own {
    const own = this.#client.duplicate?.(this.#overrides(address));
    if (!own) throw new TypeError("a worker needs a client, a cluster or a Sentinel client; not a pool");
    return new NodeRedisConnection(own);
  }

  open(): Promise<void> {
    return opened(this.#client);
  }

  #overrides(address: Address | undefined): object {
    const commandOptions = { timeout: undefined };
    if (this.#kind !== "client") return { commandOptions };
    const socket = { ...this.#client.options?.socket, ...address, socketTimeout: undefined, reconnectStrategy: false };
    return { socket, commandOptions, pingInterval: undefined, commandsQueueMaxLength: undefined, disableOfflineQueue: false };
  }

  close(): void {
    closed(this.#client);
  }
}

function closed(client: NodeRedis): void {
  try {
    Promise.resolve(client.destroy()).catch(ignore);
  } catch {
    // The client was closed already.
  }
}

// --- ioredis -----------------------------------------------------------------------------------------------------------------

interface IoRedisCommand {
  keys?: readonly string[];
  /** Returns the encoded command, which ioredis writes to the socket. */
  toWritable(...args: unknown[]): unknown;
  /** Handles an error of the command. A cluster sends the command again after MOVED and ASK. */
  reject?: (error: unknown) => void;
}

interface IoRedisPipeline {
  call(...words: unknown[]): IoRedisPipeline;
  callBuffer(...words: unknown[]): IoRedisPipeline;
  exec(): Promise<[Error | null, Reply][] | null>;
}

interface IoRedis {
  call(...words: unknown[]): Promise<Reply>;
  callBuffer(...words: unknown[]): Promise<Reply>;
  sendCommand(command: IoRedisCommand): Promise<Reply>;
  pipeline(): IoRedisPipeline;
  multi(): IoRedisPipeline;
  duplicate(...overrides: object[]): IoRedis;
  connect(): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: (...args: never[]) => void): unknown;
  readonly isCluster?: boolean;
  readonly status: string;
  readonly options?: Partial<Address> & {
    readonly keyPrefix?: string;
    readonly redisOptions?: { readonly keyPrefix?: string };
    readonly natMap?: AddressMap;
  };
  nodes?(): IoRedis[];
}

const method = (format: Format | undefined): "call" | "callBuffer" => (format === "bytes" ? "callBuffer" : "call");

class IoRedisConnection implements Own {
  constructor(protected readonly client: IoRedis) {}

  send(key: string, words: readonly Word[], format?: Format): Promise<Reply> {
    return this.#send(words, format, (command) => this.routed(command, key));
  }

  async sendOnce(key: string, words: readonly Word[], format?: Format): Promise<Reply> {
    let isWritten = false;
    let isLost = false;
    const prepare = (command: IoRedisCommand): IoRedisCommand => {
      const first = command.toWritable.bind(command);
      // After a reconnect, ioredis would write the command again. This function makes ioredis write a PING instead.
      command.toWritable = (...args) => {
        isLost ||= isWritten;
        isWritten = true;
        return isLost ? "*1\r\n$4\r\nPING\r\n" : first(...args);
      };
      return this.routed(command, key);
    };
    // An error reply (MOVED) says that the server has not carried out the command, so ioredis may write it again.
    const onReply = (error: unknown): void => {
      if (codeOf(asError(error)) !== undefined) isWritten = false;
    };
    try {
      const reply = await this.#send(words, format, prepare, onReply);
      if (isLost) throw new Error("the connection was lost before the reply");
      return reply;
    } catch (thrown) {
      throw outcomeOf(thrown, words, isWritten || isLost);
    }
  }

  get canSendOnce(): boolean {
    return true;
  }

  /**
   * Sends the command that `prepare` returns. Does not call `client.callBuffer` directly, because with automatic
   * pipelines, that method loses the command's name.
   */
  #send(
    words: readonly Word[],
    format: Format | undefined,
    prepare: (command: IoRedisCommand) => IoRedisCommand,
    onError?: (error: unknown) => void,
  ): Promise<Reply> {
    const sendCommand = (command: IoRedisCommand): Promise<Reply> => {
      const reply = this.client.sendCommand(prepare(command));
      const { reject } = command;
      if (onError && reject) {
        command.reject = (error) => {
          onError(error);
          reject(error);
        };
      }
      return reply;
    };
    const sender = { options: {}, sendCommand };
    return this.client[method(format)].apply(sender as never, words as never);
  }

  protected routed(command: IoRedisCommand, _key: string): IoRedisCommand {
    return command;
  }

  async pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    // A single command is cheaper than a pipeline of one command.
    if (commands.length < 2) return settled(commands.map((words) => this.send(key, words, format)));
    const pipeline = this.client.pipeline();
    for (const words of commands) pipeline[method(format)](...words);
    const replies = (await pipeline.exec()) ?? [];
    return replies.map(([error, reply]) => error ?? reply);
  }

  async transaction(_key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const multi = this.client.multi();
    for (const words of commands) multi.call(...words);
    try {
      const replies = (await multi.exec()) ?? [];
      return replies.map(([error, reply]) => error ?? reply);
    } catch (thrown) {
      throw reasonOf(asError(thrown), (thrown as { previousErrors?: Error[] }).previousErrors ?? []);
    }
  }

  get isPinned(): boolean {
    return true;
  }

  get isCluster(): boolean {
    return false;
  }

  scout(): Scout {
    throw new TypeError("not a cluster");
  }

  isReady(): boolean {
    return this.client.status === "ready" || this.client.status === "wait";
  }

  own(address?: Address): Own {
    return new IoRedisConnection(this.client.duplicate({ ...OWN, ...address }));
  }

  open(): Promise<void> {
    return opened(this.client);
  }

  close(): void {
    this.client.disconnect();
  }
}

/** The options of a worker's own connection. With `lazyConnect`, the first attempt to connect reports its error. */
const OWN = {
  lazyConnect: true,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  enableAutoPipelining: false,
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  readOnly: false,
};

class IoRedisCluster extends IoRedisConnection {
  override get isPinned(): boolean {
    return false;
  }

  override get isCluster(): boolean {
    return true;
  }

  /** Tells ioredis the key of a command, because ioredis does not know the keys of a module's commands. */
  protected override routed(command: IoRedisCommand, key: string): IoRedisCommand {
    command.keys = [key];
    return command;
  }

  override pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    return settled(commands.map((words) => this.send(key, words, format)));
  }

  /** Sends MULTI, the commands and EXEC together to the node of the key. `multi()` of ioredis would choose any node. */
  override async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const replies = await this.pipeline(key, [["multi"], ...commands, ["exec"]]);
    const result = replies.at(-1);
    if (Array.isArray(result)) return result;
    const errors = replies.filter((reply) => reply instanceof Error);
    throw reasonOf(errors.at(-1) ?? new Error("the transaction was discarded"), errors);
  }

  override scout(): Scout {
    const scout = this.client.duplicate([], { lazyConnect: true, enableReadyCheck: false, clusterRetryStrategy: () => null });
    const open = async (): Promise<Nodes> => {
      await opened(scout);
      const nodes = scout.nodes?.() ?? [];
      const [node] = nodes;
      if (!node) throw new Error("no node is known");
      const addresses = nodes.flatMap(({ options }) => (options?.host && options.port ? [{ host: options.host, port: options.port }] : []));
      const own = (address: Address): Own => new IoRedisConnection(node).own(mapped(address, this.client.options?.natMap));
      return { addresses, own };
    };
    return { open, close: () => scout.disconnect() };
  }
}

// --- both --------------------------------------------------------------------------------------------------------------------

/**
 * Connects. If that fails, throws the first permanent error that occurred. If there was none, throws the last temporary
 * error. The error of `connect()` itself often does not name the cause.
 */
async function opened(client: NodeRedis | IoRedis): Promise<void> {
  let reason: Error | undefined;
  const note = (error: Error & { lastNodeError?: Error }): void => {
    if (!reason || passes(reason)) reason = error.lastNodeError ?? error;
  };
  // Without a listener, an error of a connection would end the process. The requests that wait for a reply fail in any
  // case.
  client.on("error", note);
  try {
    await client.connect();
  } catch (thrown) {
    note(asError(thrown));
    throw reason;
  }
}

/**
 * Returns the error that made the server discard a transaction. The reply EXECABORT does not name this error. If there
 * are several such errors, prefers a temporary one.
 */
function reasonOf(error: Error, causes: readonly Error[]): Error {
  const others = causes.filter((cause) => codeOf(cause) !== "EXECABORT");
  return others.find(passes) ?? others[0] ?? error;
}

/** Returns the error of a command that is sent once. `mayBeDone`: whether the server may have carried it out. */
function outcomeOf(thrown: unknown, words: readonly Word[], mayBeDone: boolean): Error {
  const error = lost(thrown);
  if (!mayBeDone || codeOf(error) !== undefined) return error;
  return new OutcomeUnknown(`${String(words[0])}: the reply is lost: ${describe(error)}`, { cause: error });
}

function nameOf(thrown: unknown): string {
  const error = asError(thrown);
  return error.constructor?.name ?? error.name;
}

async function settled(promises: readonly Promise<Reply>[]): Promise<(Reply | Error)[]> {
  const results = await Promise.allSettled(promises);
  return results.map((result) => (result.status === "fulfilled" ? result.value : asError(result.reason)));
}
