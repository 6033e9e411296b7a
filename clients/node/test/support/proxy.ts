/** A proxy between a client and a server. It breaks connections or replaces replies at a chosen moment. */

import { connect, createServer, type Server as Listener, type Socket } from "node:net";
import type { Test } from "./server.js";

export class Proxy {
  /** The reply to the next command that contains this text is lost, with its connection. */
  loseReplyTo: string | undefined;
  /** Whether the next lost reply is sent to its half. */
  halves = false;
  /** How many replies were lost. */
  lost = 0;
  /** The next command that contains the first text gets the second text as its reply, and does not reach the server. */
  answer: readonly [to: string, reply: string] | undefined;
  /** Whether the proxy stops all data in both directions. The connections stay open. */
  isPartitioned = false;
  readonly url: string;
  /** Resets all connections: their peers get RST instead of FIN. */
  reset: () => void = () => undefined;

  private constructor(
    readonly port: number,
    /** The server's port for new connections. */
    public target: number,
  ) {
    this.url = `redis://127.0.0.1:${port}`;
  }

  static async start(test: Test, target: number): Promise<Proxy> {
    const sockets = new Set<Socket>();
    let proxy: Proxy | undefined;
    const listener: Listener = createServer((client) => {
      const server = connect(proxy?.target ?? target, "127.0.0.1");
      for (const socket of [client, server]) {
        sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => {
          sockets.delete(socket);
          client.destroy();
          server.destroy();
        });
      }
      let isDoomed = false;
      client.on("data", (data) => {
        if (proxy?.isPartitioned) return;
        const { answer } = proxy ?? {};
        if (proxy && answer && data.toString("latin1").toUpperCase().includes(answer[0])) {
          proxy.answer = undefined;
          return void client.write(answer[1]);
        }
        const word = proxy?.loseReplyTo;
        if (proxy && word !== undefined && data.includes(word)) {
          proxy.loseReplyTo = undefined;
          isDoomed = true;
        }
        server.write(data);
      });
      server.on("data", (data) => {
        if (proxy?.isPartitioned) return;
        if (!isDoomed) return void client.write(data);
        if (proxy) proxy.lost += 1;
        if (!proxy?.halves) return void client.destroy();
        proxy.halves = false;
        client.end(data.subarray(0, data.length / 2));
      });
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    test.after(() => {
      listener.close();
      for (const socket of sockets) socket.destroy();
    });
    const address = listener.address();
    if (!address || typeof address === "string") throw new Error("no port");
    proxy = new Proxy(address.port, target);
    proxy.reset = () => {
      for (const socket of sockets) socket.resetAndDestroy();
    };
    return proxy;
  }
}
