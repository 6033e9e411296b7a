/** The libraries that a test runs with: node-redis and ioredis. */

import { test } from "node:test";
import { Redis } from "ioredis";
import { createClient } from "redis";
import type { RedisClient } from "zeitset";
import { Server, type Settings, type Test } from "./server.js";

/** A server with a URL. */
export interface Address {
  readonly url: string;
}

export interface ConnectOptions {
  /** The timeouts of the client, as a service may set them. */
  readonly timeoutMs?: number;
}

export type Connect = (test: Test, address: Address, options?: ConnectOptions) => Promise<RedisClient>;

const ignore = (): void => undefined;

export const nodeRedis: Connect = async (test, { url }, { timeoutMs } = {}) => {
  const client = createClient({
    url,
    ...(timeoutMs && { socket: { socketTimeout: timeoutMs }, commandOptions: { timeout: timeoutMs } }),
  });
  client.on("error", ignore);
  await client.connect();
  test.after(() => void (client.isOpen && client.destroy()));
  return client;
};

export const ioredis: Connect = async (test, { url }, { timeoutMs } = {}) => {
  const client = new Redis(url, timeoutMs ? { commandTimeout: timeoutMs, socketTimeout: timeoutMs } : {});
  client.on("error", ignore);
  test.after(() => client.disconnect());
  return client;
};

export const LIBRARIES: readonly (readonly [string, Connect])[] = [
  ["node-redis", nodeRedis],
  ["ioredis", ioredis],
];

export interface Place {
  readonly server: Server;
  /** A client of the library under test, and how it was made. */
  readonly redis: RedisClient;
  readonly connect: Connect;
  readonly test: Test;
  /** Sends any command, and returns the reply. */
  call(...words: string[]): Promise<unknown>;
}

/** Runs a test with each library, on a server of its own. */
export function withEach(name: string, body: (place: Place) => Promise<void>, settings?: Settings): void {
  for (const [library, connect] of LIBRARIES) {
    test(`${name} (${library})`, { timeout: 120_000 }, async (t) => {
      const server = await Server.start(t, settings);
      const redis = await connect(t, server);
      const plain = await ioredis(t, server);
      await body({ server, redis, connect, test: t, call: (command, ...words) => (plain as Redis).call(command ?? "", ...words) });
    });
  }
}

/** Returns how often the server was called with one of these commands since the last time. */
export function asked({ call }: Pick<Place, "call">): (...commands: string[]) => Promise<number> {
  let before = 0;
  return async (...commands) => {
    const stats = String(await call("INFO", "commandstats")).toLowerCase();
    const all = commands.reduce((sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0), 0);
    const since = all - before;
    before = all;
    return since;
  };
}
