/** Helpers for tests: a server with the module, and a clock for delayed and recurring jobs. */

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisClient } from "./connection.js";
import { Queue } from "./queue.js";
import { keysOf } from "./shards.js";
import { type Duration, milliseconds } from "./values.js";

export interface ServerOptions {
  /** The module's file; by default the environment variable ZEITSET_MODULE. */
  readonly module?: string;
  /** The server's program; by default the environment variable REDIS_SERVER, or redis-server. */
  readonly program?: string;
  /** Further arguments of the server: `["--maxmemory", "100mb"]`. */
  readonly options?: readonly string[];
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  /** Ends the server, and removes its folder. */
  stop(): Promise<void>;
}

/**
 * Starts a server with the module, in a temporary folder. The server saves nothing. It ends at `stop()`, or when this
 * process ends.
 */
export async function startServer({ module, program, options = [] }: ServerOptions = {}): Promise<TestServer> {
  const file = module ?? process.env["ZEITSET_MODULE"];
  if (!file) throw new TypeError("name the module's file: startServer({ module }) or ZEITSET_MODULE");
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "zeitset-"));
  const place = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--loadmodule", file];
  const child = spawn(program ?? process.env["REDIS_SERVER"] ?? "redis-server", [...place, ...options]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output = (output + data.toString()).slice(-4000)));
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  child.on("error", (error) => (output += error.message));
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const stop = async (): Promise<void> => {
    process.off("exit", kill);
    kill();
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  while (!(await answers(port))) {
    if (child.exitCode !== null || child.pid === undefined) {
      await stop();
      throw new Error(`the server has ended:\n${output}`);
    }
    await sleep(20);
  }
  return { url: `redis://127.0.0.1:${port}`, port, stop };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port"))));
    });
  });
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    const done = (answer: boolean) => () => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1000, done(false)).once("error", done(false)).once("data", done(true));
  });
}

/**
 * A clock that a test advances: `const clock = new Clock(redis, "jobs")`,
 * `new Worker(redis, "jobs", handler, { clock, cron })`, then `await clock.advance("1d")`.
 */
export class Clock {
  #aheadMs = 0;

  constructor(
    private readonly client: RedisClient,
    private readonly queues: string | readonly string[],
    /** `shards`: the number of shards of each queue. */
    private readonly options: { readonly shards?: number | undefined } = {},
  ) {}

  /** How far the clock of recurring jobs is ahead of the server's clock. */
  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Subtracts `duration` from the due time of each delayed job. Advances the clock of recurring jobs by `duration`. */
  async advance(duration: Duration): Promise<void> {
    const ms = milliseconds(duration);
    this.#aheadMs += ms;
    for (const key of [this.queues].flat().flatMap((name) => keysOf(name, this.options.shards))) {
      const queue = new Queue<Buffer>(this.client, key, { codec: "bytes" });
      const jobs = [];
      for (let page = await queue.peek("delayed", { count: 1000 }); page.length > 0; ) {
        jobs.push(...page);
        page = await queue.peek("delayed", { count: 1000, after: page.at(-1)?.id ?? "" });
      }
      for (const { id, dueMs } of jobs) await queue.reschedule(id, { at: Math.max(1e12, dueMs - ms) });
    }
  }
}
