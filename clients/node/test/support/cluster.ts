/** Redis Clusters, and clients of them. */

import { Cluster as IoRedisCluster } from "ioredis";
import { createCluster } from "redis";
import type { RedisClient } from "zeitset";
import { Server, type Test } from "./server.js";
import { until } from "./until.js";

const ignore = (): void => undefined;

export class Cluster {
  private constructor(
    readonly masters: readonly Server[],
    /** The replica of the first master. */
    readonly replica: Server | undefined,
  ) {}

  /** Three masters, each with a third of the slots. */
  static async start(test: Test, { hasReplica = false, settings = [] as string[] } = {}): Promise<Cluster> {
    const servers: Server[] = [];
    const nodes = hasReplica ? 4 : 3;
    for (let n = 0; n < nodes; n++) servers.push(await Server.start(test, { arguments: ["--cluster-enabled", "yes", ...settings] }));
    const [first, second, third, replica] = servers as [Server, Server, Server, Server?];
    const ranges = ["0 5460", "5461 10922", "10923 16383"];
    for (const [at, server] of servers.entries()) {
      if (ranges[at]) await server.ask(`CLUSTER ADDSLOTSRANGE ${ranges[at]}`);
      await server.ask(`CLUSTER MEET 127.0.0.1 ${first.port}`);
    }
    const all = async (command: string, part: string): Promise<boolean> =>
      (await Promise.all(servers.map((server) => server.ask(command)))).every((reply) => reply.includes(part));
    await until("all nodes know each other", () => all("CLUSTER INFO", `cluster_known_nodes:${nodes}`));
    if (replica) {
      await until("it is a replica", async () => (await replica.ask(`CLUSTER REPLICATE ${await idOf(first)}`)).startsWith("+OK"));
      await until("it replicates", async () => (await replica.ask("INFO replication")).includes("master_link_status:up"));
    }
    await until("the cluster is up", () => all("CLUSTER INFO", "cluster_state:ok"));
    return new Cluster([first, second, third], replica);
  }

  /**
   * Moves a key and then its slot from one node to another. `between` runs after the key has moved, and before the slot
   * moves.
   */
  async move(key: string, from: Server, to: Server, between: () => Promise<void> = async () => undefined): Promise<void> {
    const slot = /:(\d+)/.exec(await from.ask(`CLUSTER KEYSLOT ${key}`))?.[1];
    const [source, target] = [await idOf(from), await idOf(to)];
    await to.ask(`CLUSTER SETSLOT ${slot} IMPORTING ${source}`);
    await from.ask(`CLUSTER SETSLOT ${slot} MIGRATING ${target}`);
    await until("the key moves", async () => /^\+(OK|NOKEY)/.test(await from.ask(`MIGRATE 127.0.0.1 ${to.port} ${key} 0 5000`)));
    await between();
    for (const server of [to, from]) await server.ask(`CLUSTER SETSLOT ${slot} NODE ${target}`);
  }
}

const idOf = async (server: Server): Promise<string> => (await server.ask("CLUSTER MYID")).split("\r\n")[1] ?? "";

export const CLUSTER_CLIENTS: Record<string, (test: Test, nodes: readonly Server[]) => Promise<RedisClient>> = {
  "node-redis": async (test, nodes) => {
    const client = createCluster({ rootNodes: nodes.map(({ url }) => ({ url })) });
    client.on("error", ignore);
    await client.connect();
    test.after(() => void client.destroy());
    return client;
  },
  ioredis: async (test, nodes) => {
    const client = new IoRedisCluster(nodes.map(({ port }) => ({ host: "127.0.0.1", port })));
    client.on("error", ignore);
    test.after(() => client.disconnect());
    await until("it is ready", () => client.status === "ready");
    return client;
  },
};
