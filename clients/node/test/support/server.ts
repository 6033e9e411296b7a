/** Redis servers with the module, each in a folder of its own. They end with the test that started them. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./until.js";

const PROGRAM = process.env["REDIS_SERVER"] ?? "redis-server";

function module(): string {
  if (process.env["ZEITSET_MODULE"]) return process.env["ZEITSET_MODULE"];
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== "/"; folder = dirname(folder)) {
    if (existsSync(join(folder, "Cargo.toml"))) {
      return join(process.env["CARGO_TARGET_DIR"] ?? join(folder, "target"), "release", "libzeitset.so");
    }
  }
  throw new Error("ZEITSET_MODULE must name the module");
}

/** Resolves to the port if no process listens there. 0: any free port. */
function probePort(wanted: number): Promise<number> {
  return new Promise<number>((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(wanted, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port"))));
    });
  });
}

export async function freePort(): Promise<number> {
  for (;;) {
    const port = await probePort(0);
    // A node of a cluster also listens on its port plus 10,000.
    const isFree = port < 50_000 && (await probePort(port + 10_000).then(() => true, () => false));
    if (isFree) return port;
  }
}

/** Runs clean-ups after a test: the context of `node:test`. */
export interface Test {
  after(fn: () => void | Promise<void>): void;
}

export interface Settings {
  readonly port?: number;
  readonly arguments?: readonly string[];
  /** The password of the default user, if it has one. */
  readonly password?: string;
}

export class Server {
  readonly url: string;
  #process: ChildProcess | undefined;
  #password: string | undefined;

  private constructor(
    readonly port: number,
    readonly folder: string,
    readonly program: readonly string[],
  ) {
    this.url = `redis://127.0.0.1:${port}`;
  }

  static async start(test: Test, { port, arguments: extra = [], password }: Settings = {}): Promise<Server> {
    const durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    return Server.#begin(test, port, password, (port, folder) => {
      const place = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, "--logfile", join(folder, "log")];
      const login = password === undefined ? [] : ["--requirepass", password];
      return [PROGRAM, ...place, ...durable, ...login, "--loadmodule", module(), ...extra];
    });
  }

  /** Starts a Sentinel, which writes its state to its configuration file. */
  static async sentinel(test: Test, lines: readonly string[]): Promise<Server> {
    const { writeFileSync } = await import("node:fs");
    return Server.#begin(test, undefined, undefined, (port, folder) => {
      const file = join(folder, "sentinel.conf");
      const place = [`port ${port}`, "bind 127.0.0.1", `dir ${folder}`, `logfile ${join(folder, "log")}`];
      writeFileSync(file, [...place, ...lines, ""].join("\n"));
      return [PROGRAM, file, "--sentinel"];
    });
  }

  static async #begin(
    test: Test,
    wanted: number | undefined,
    password: string | undefined,
    words: (port: number, folder: string) => string[],
  ): Promise<Server> {
    const port = wanted ?? (await freePort());
    const folder = mkdtempSync(join(tmpdir(), "zeitset-node-"));
    const server = new Server(port, folder, words(port, folder));
    server.#password = password;
    test.after(async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    await server.run();
    return server;
  }

  /** Starts the server. If it has ended, starts it again, on the same port and with the same data. */
  async run(...more: string[]): Promise<void> {
    const [program = "", ...words] = this.program;
    const child = spawn(program, [...words, ...more], { stdio: "ignore" });
    this.#process = child;
    await until(`a server on port ${this.port}`, async () => {
      if (child.exitCode !== null) throw new Error(`the server has ended:\n${this.log()}`);
      return (await this.ask("PING")).startsWith("+PONG");
    });
  }

  log(): string {
    const file = join(this.folder, "log");
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(-20).join("\n") : "";
  }

  /** Ends the server by kill -9. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    // A stopped process does not end until it is continued.
    child.kill("SIGCONT");
    await ended;
  }

  async restart(): Promise<void> {
    await this.#end("SIGTERM");
    await this.run();
  }

  /** Freezes the server while `body` runs. The server sends no replies, and no connection ends. */
  async frozen<T>(body: () => Promise<T>): Promise<T> {
    this.#process?.kill("SIGSTOP");
    try {
      return await body();
    } finally {
      this.#process?.kill("SIGCONT");
    }
  }

  /**
   * Sends an inline command over a connection of its own. Returns the first chunk of the reply; empty if the server
   * does not reply.
   */
  async ask(command: string): Promise<string> {
    return new Promise((resolve) => {
      const socket = new Socket();
      const done = (answer: string): void => {
        socket.destroy();
        resolve(answer);
      };
      socket.setTimeout(2000, () => done(""));
      socket.on("error", () => done(""));
      const login = this.#password === undefined ? "" : `AUTH ${this.#password}\r\n`;
      let answer = "";
      socket.on("data", (data) => {
        answer += data.toString();
        if (login === "") return done(answer);
        const [, reply] = /^\+OK\r\n([^]+)$/.exec(answer) ?? [];
        if (reply !== undefined) done(reply);
      });
      socket.connect(this.port, "127.0.0.1", () => socket.write(`${login}${command}\r\n`));
    });
  }
}
