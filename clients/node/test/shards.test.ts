/** Queues that are spread over several keys, on one server and in a cluster. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Cron, Queue, type RedisClient, Worker } from "zeitset";
import { Clock } from "zeitset/testing";
import { withEach } from "./support/clients.js";
import { Cluster, CLUSTER_CLIENTS } from "./support/cluster.js";
import type { Server } from "./support/server.js";
import { deferred, until } from "./support/until.js";
import { work } from "./support/work.js";

const docs = process.env["DOCS"] ?? fileURLToPath(new URL("../../../../docs", import.meta.url));

interface Case {
  readonly queue: string;
  readonly shards: number;
  readonly id: string;
  readonly group: string | null;
  /** Null: the queue is refused. */
  readonly key: string | null;
}

const cases = JSON.parse(readFileSync(join(docs, "../clients/shard-cases.json"), "utf8")) as Case[];

/** Looks like a client, but has no connection. */
const nobody = { sendCommand: () => Promise.reject(new Error("nobody")), multi: () => undefined } as unknown as RedisClient;

test("a job is in the shard that Python says", () => {
  assert.ok(cases.length > 50);
  for (const { queue, shards, id, group, key } of cases) {
    const found = (): string => new Queue(nobody, queue, { shards }).calls.push(1, { id, ...(group !== null && { group }) }).key;
    if (key === null) assert.throws(found, RangeError, `${queue} ${shards}`);
    else assert.equal(found(), key);
  }
  assert.throws(() => new Worker(nobody, "{mails}", () => undefined, { shards: 16 }), RangeError);
  assert.throws(() => new Worker(nobody, "mails", () => undefined, { shards: 1.5 }), RangeError);
});

/** Returns how many clients of a client list wait in a claim. */
const waits = (list: string): number => list.split("\n").filter((line) => /flags=\S*b/.test(line) && /cmd=zq\.claim/i.test(line)).length;

const jobs = (count: number, more: object = {}): { payload: number; id: string }[] =>
  Array.from({ length: count }, (_, n) => ({ payload: n, id: `job${n}`, ...more }));

withEach("a queue with shards does what a queue does", async ({ redis, call }) => {
  const queue = new Queue<number>(redis, "mails", { shards: 4 });
  assert.equal(await queue.stats(), null);
  await queue.configure({ maxAttempts: 7 });
  assert.deepEqual(await queue.pushMany(jobs(40)), jobs(40).map(({ id }) => id));
  assert.deepEqual((await call("KEYS", "*") as string[]).sort(), ["{mails:0}", "{mails:1}", "{mails:2}", "{mails:3}"]);
  assert.equal(await queue.push(0, { id: "job0" }), null, "it is there");
  assert.equal(await queue.push(100, { id: "late", group: "ann", delay: "1h", priority: 3 }), "late");
  const stats = await queue.stats();
  assert.deepEqual([stats?.ready, stats?.delayed, stats?.["pushed"], stats?.["maxAttempts"]], [40, 1, 41, 7]);
  assert.equal(stats?.["oldestReadyMs"], (await queue.peek("ready", { count: 1 }))[0]?.dueMs);

  // A job is found by its id, with or without its group.
  assert.equal((await queue.get("late", { group: "ann" }))?.payload, 100);
  assert.equal((await queue.get("late"))?.payload, 100);
  const elsewhere = ["bob", "eve", "joe"].map((group) => queue.get("late", { group }));
  assert.ok((await Promise.all(elsewhere)).some((job) => job === null), "only where the group is");
  assert.equal(await queue.reschedule("late", { delay: "2h" }), true);
  assert.equal(await queue.reschedule("none", { delay: "2h" }), false);
  assert.equal(await queue.cancel("job1", "late", "none"), 2);
  assert.equal(await queue.cancel(["job2"], { group: "" }), 1);
  assert.equal(await queue.get("late"), null);

  // A list has jobs of all shards.
  for (const [n, priority] of [5, -1, 2].entries()) await queue.push(n, { id: `p${n}`, priority });
  const listed = await queue.peek("ready", { count: 100 });
  assert.equal(listed.length, 41);
  assert.deepEqual(listed.map(({ priority }) => priority), [-1, ...Array<number>(38).fill(0), 2, 5]);
  assert.deepEqual((await queue.peek("ready", { count: 1 })).map(({ id }) => id), ["p1"]);
  await assert.rejects(queue.peek("ready", { after: "p1" }), /queue\.shard/);
  for (const n of [0, 1, 2]) await queue.push(n, { group: `g${n}` });
  assert.deepEqual((await queue.peek("ready", { group: "g1" })).map(({ payload }) => payload), [1]);
  const groups = await queue.groups();
  assert.deepEqual(groups.map(({ name, ready }) => [name, ready]), [["", 41], ["g0", 1], ["g1", 1], ["g2", 1]]);
  assert.deepEqual((await queue.groups({ count: 1, after: "g0" })).map(({ name }) => name), ["g1"]);
  await queue.push(3, { id: "second", group: "g2" });
  const largest = await queue.groups({ largest: true, count: 3 });
  assert.deepEqual(largest.map(({ name, ready }) => [name, ready]), [["", 41], ["g2", 2], ["g0", 1]]);
  assert.equal(await queue.cancel(["second"], { group: "g2" }), 1);
  assert.equal(await queue.hold("g1", "1h"), true);
  assert.equal(await queue.hold("", "1h"), true);
  assert.ok((await queue.groups()).filter(({ heldUntilMs }) => heldUntilMs !== null).length === 2);
  assert.equal(await queue.clean("ready", { count: 5 }), 5);
  assert.equal(await queue.clean("ready", { group: "g1" }), 1);
  assert.equal(await queue.clean("ready"), 38);
  await queue.pause();
  assert.equal((await queue.stats())?.["paused"], "yes");
  assert.equal((await queue.shard(3).stats())?.["paused"], "yes");
  assert.deepEqual(queue.shards.map(({ key }) => key), ["{mails:0}", "{mails:1}", "{mails:2}", "{mails:3}"]);
  assert.throws(() => queue.shard(4), RangeError);
  assert.throws(() => queue.calls.stats(), /queue\.shard/);
  await queue.pushMany(jobs(8, { delay: "1h" }));
  await new Clock(redis, "mails", { shards: 4 }).advance("1h");
  await until("they are due", async () => (await queue.stats())?.delayed === 0);
});

withEach("a worker serves all shards from one claim, and none first", async (place) => {
  const { redis, call } = place;
  const queue = new Queue<number>(redis, "mails", { shards: 16 });
  await queue.pushMany(jobs(200));
  const keys: string[] = [];
  const { worker, events } = work<number>(place, "mails", (job) => {
    assert.equal(job.queue, "mails");
    keys.push(job.key);
    if (job.payload % 7 === 0) throw new Error("fails");
  }, { concurrency: 1, shards: 16, backoff: () => "1h", cron: [new Cron("yearly", "0 0 1 1 *")] });
  await until("all have run", () => events.length === 200);
  assert.deepEqual(worker.queues, ["mails"]);
  // While all shards have jobs, each shard is served in the first turns.
  assert.equal(new Set(keys.slice(0, 32)).size, 16, keys.slice(0, 32).join(" "));
  const stats = await queue.stats();
  assert.deepEqual([stats?.["acked"], stats?.delayed], [171, 30]);
  assert.equal((await queue.get("yearly"))?.state, "delayed");
  await until("one claim waits", async () => waits(String(await call("CLIENT", "LIST"))) === 1);
  // Dead letters are redriven from all shards.
  await queue.pushMany(Array.from({ length: 20 }, (_, n) => ({ payload: 7, id: `dead${n}`, maxAttempts: 1 })));
  await until("they are dead", () => events.filter((event) => event.startsWith("dead ")).length === 20);
  await worker.stop();
  assert.equal(await queue.redrive({ ids: ["dead0", "dead1", "none"] }), 2);
  assert.equal(await queue.redrive({ count: 10 }), 10);
  assert.equal(await queue.redrive(), 8);
});

/** Returns how many connections of the cluster wait for jobs. */
const waiting = async (nodes: readonly Server[]): Promise<number> => waits((await Promise.all(nodes.map((node) => node.ask("CLIENT LIST")))).join(""));

for (const [library, connect] of Object.entries(CLUSTER_CLIENTS)) {
  test(`in a cluster the shards share the slots of a worker in turn (${library})`, { timeout: 120_000 }, async (t) => {
    const { masters } = await Cluster.start(t);
    const redis = await connect(t, masters);
    const queue = new Queue<number>(redis, "mails", { shards: 16 });
    // One shard has far more jobs than the others.
    await queue.pushMany(jobs(300, { group: "ann" }));
    let running = 0;
    const seen = new Map<string, number>();
    let gate = deferred();
    let count = 0;
    const { worker, events } = work<number>({ redis, test: t }, "mails", async (job) => {
      assert.equal((running += 1), 1, "one at a time");
      count += 1;
      seen.set(job.key, count);
      if (count === 50) await gate.promise;
      running -= 1;
    }, { concurrency: 1, shards: 16 });
    await until("one runs", () => count === 50);
    await until("no other claim waits", async () => (await waiting(masters)) === 0);
    await queue.pushMany(jobs(100).map((job) => ({ ...job, id: `other${job.id}` })));
    gate.resolve();
    await until("each shard is served", () => seen.size === 16);
    assert.ok(count < 300, `before the large one is empty: ${count}`);
    await until("all are done", () => events.filter((event) => event.startsWith("completed")).length === 400);
    await until("all shards wait", async () => (await waiting(masters)) === 16);
    // A job of one shard ends the waits of the other shards.
    gate = deferred();
    count = 49;
    await queue.push(0);
    await until("one runs", () => count === 50);
    await until("no other claim waits", async () => (await waiting(masters)) === 0);
    const commands = (await Promise.all(masters.map((node) => node.ask("INFO commandstats")))).join("");
    assert.match(commands, /cmdstat_client\|unblock:calls=/i, "their waits were ended");
    gate.resolve();
    await until("all shards wait again", async () => (await waiting(masters)) === 16);
    // If several shards get a job at the same time, the worker handles one job, and returns the others to their queues.
    gate = deferred();
    count = 49;
    await queue.pushMany(jobs(100).map((job) => ({ ...job, id: `last${job.id}` })));
    await until("one runs", () => count === 50);
    await until("no other claim waits", async () => (await waiting(masters)) === 0);
    await until("the others were given back", async () => (await queue.stats())?.claimed === 1);
    await worker.stop({ grace: 0 });
    gate.resolve();
    const stats = await queue.stats();
    assert.deepEqual([stats?.claimed, stats?.ready], [0, 100]);
    assert.ok((await queue.peek("ready", { count: 100 })).every(({ attempts }) => attempts === 0), "free");
    await until("no connection is left", async () => (await waiting(masters)) === 0);
    await new Worker(redis, "mails", () => undefined, { shards: 16, signals: false }).run({ burst: true });
    assert.equal((await queue.stats())?.["acked"], 300 + 100 + 1 + 100, "a burst ends when all shards are empty");
  });

  test(`queues of several slots, one of whose nodes hangs, and a slot that moves for long (${library})`, { timeout: 120_000 }, async (t) => {
    const cluster = await Cluster.start(t, { settings: ["--cluster-require-full-coverage", "no"] });
    const [first, second] = cluster.masters as [Server, Server, Server];
    const redis = await connect(t, cluster.masters);
    // The first node has {b}, the second {c}, and the third {a}.
    const names = ["a", "b", "c"];
    const { events, worker } = work<number>({ redis, test: t }, names, async (job) => {
      if (job.payload > 0) await sleep(job.payload, undefined, { signal: job.signal });
      job.chain(new Queue(redis, job.queue).calls.push(0, { id: `${job.id}+`, delay: "1h" }));
    }, { lease: "1500ms", concurrency: 2 });
    for (const name of names) await new Queue(redis, name).push(0, { id: `${name}1` });
    for (const name of names) await until("all are served", () => events.includes(`completed ${name}1`));
    const of = async (name: string): Promise<[string, Server]> => {
      for (const node of cluster.masters) if ((await node.ask(`ZQ.STATS ${name}`)).startsWith("*")) return [name, node];
      throw new Error(`${name} is nowhere`);
    };
    const [, home] = await of("a");
    const target = home === first ? second : first;
    // A job is claimed before its key moves. Heartbeats keep its lease while the key has moved and the slot has not.
    await new Queue(redis, "a").push(2500, { id: "long" });
    await until("it runs", async () => (await new Queue(redis, "a").get("long"))?.state === "claimed");
    await cluster.move("a", home, target, async () => {
      await until("it is done", () => events.includes("completed long"));
      assert.equal(await new Queue(redis, "a").push(0, { id: "a2" }), "a2");
      await until("the new node is served", () => events.includes("completed a2"));
    });
    await new Queue(redis, "a").push(0, { id: "a3" });
    await until("the slot has moved", () => events.includes("completed a3"));
    assert.ok(!events.some((event) => /^(lost|failed)/.test(event)), events.join(", "));
    // A command that is chained to an ACK cannot go to another slot.
    const { events: refused, worker: other } = work<number>({ redis, test: t }, "d", (job) => {
      job.chain(new Queue(redis, "{e}").calls.push(0, { id: "x" }));
    }, { backoff: () => "1h" });
    await new Queue(redis, "d").push(0, { id: "d1" });
    await until("it has failed", () => refused.includes("failed d1"));
    await other.stop();
    await worker.stop();
    // A node hangs while the other nodes have jobs. This worker has a long time limit, because of its long lease.
    const [, hanging] = await of("c");
    const [alive] = await of("b");
    assert.notEqual((await of(alive))[1], hanging);
    const busy = work<number>({ redis, test: t }, names, () => sleep(1), { concurrency: 1 });
    for (const name of names) await new Queue(redis, name).push(0, { id: `${name}8` });
    await until("all are served", () => busy.events.length === names.length);
    await new Queue(redis, alive).pushMany(jobs(250).map((job) => ({ ...job, id: `busy${job.id}` })));
    await until("jobs are handled", () => busy.events.length > 10);
    await hanging.frozen(async () => {
      assert.ok(busy.events.length < 200, "still");
      await until("all of the other node are handled", () => busy.events.length >= 250, 8000);
    });
    await hanging.ask("ZQ.PUSH c 0 ID c9");
    await until("it is served again", () => busy.events.includes("completed c9"));
    // All nodes fail.
    for (const node of cluster.masters) await node.kill();
    await until("they are missed", () => busy.worker.state === "reconnecting");
    for (const node of cluster.masters) await node.run();
    await until("it is served again", async () => {
      await hanging.ask("ZQ.PUSH c 0 ID c10");
      return busy.events.includes("completed c10");
    });
    await busy.worker.stop();
  });
}

/** Returns random numbers by a seed, so that a run can be repeated. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

for (const [library, connect] of Object.entries(CLUSTER_CLIENTS)) {
  test(`slots move and a master is lost: no job is lost, and each group keeps its order (${library})`, { timeout: 180_000 }, async (t) => {
    const seed = Number(process.env["ZEITSET_SEED"] ?? Date.now() % 1e6);
    const roll = random(seed);
    const shards = 12;
    const cluster = await Cluster.start(t, { hasReplica: true, settings: ["--cluster-node-timeout", "2000"] });
    const [first, ...others] = cluster.masters as [Server, ...Server[]];
    const replica = cluster.replica as Server;
    const redis = await connect(t, cluster.masters);
    const queue = new Queue<{ group: string; n: number }>(redis, "mails", { shards });
    await queue.configure({ ordered: true });

    // For each group: the number of the last pushed job, and of the last job that was handled for the first time.
    const groups = Array.from({ length: 30 }, (_, n) => `group${n}`);
    const pushed = new Map<string, number>();
    const handled = new Map<string, number>();
    const wrong: string[] = [];
    let running = 0;
    const workers = [5, 2].map((concurrency) => {
      let held = 0;
      return work<{ group: string; n: number }>({ redis, test: t }, "mails", async (job) => {
        const { group, n } = job.payload;
        held += 1;
        running += 1;
        if (held > concurrency) wrong.push(`${held} of ${concurrency} at once`);
        const next = (handled.get(group) ?? 0) + 1;
        if (n > next) wrong.push(`${group}: ${n} before ${next}`);
        await sleep(roll(8));
        if (n === next) handled.set(group, n);
        held -= 1;
        running -= 1;
      }, { concurrency, shards, lease: "1500ms", backoff: () => "50ms" });
    });

    // A push is repeated until it is accepted. The id prevents a second job.
    let isOpen = true;
    let pause: Promise<void> | undefined;
    let pausing = 0;
    const pushers = [0, 1, 2].map(async (part) => {
      const own = groups.filter((_, n) => n % 3 === part);
      while (isOpen) {
        if (pause) {
          pausing += 1;
          await pause;
        }
        const group = own[roll(own.length)] ?? "";
        const n = (pushed.get(group) ?? 0) + 1;
        await until("a push is accepted", async () => {
          const push = queue.push({ group, n }, { id: `${group}:${n}`, group }).then(() => true, () => false);
          return Promise.race([push, sleep(3000, false)]);
        });
        pushed.set(group, n);
        await sleep(roll(6));
      }
    });
    const total = (of: Map<string, number>): number => [...of.values()].reduce((sum, n) => sum + n, 0);
    const goesOn = async (what: string): Promise<void> => {
      const before = total(handled);
      await until(`jobs are handled ${what}`, () => total(handled) > before + 40);
    };

    try {
      await goesOn("at first");
      // Slots move, at once or some time after their keys.
      const home = new Map<number, Server>();
      const keys = Array.from({ length: shards }, (_, n) => `{mails:${n}}`);
      for (const [at, key] of keys.entries()) {
        for (const node of cluster.masters) if ((await node.ask(`ZQ.STATS ${key}`)).startsWith("*")) home.set(at, node);
      }
      for (let move = 0; move < 5; move++) {
        const at = roll(shards);
        const from = home.get(at) as Server;
        const targets = cluster.masters.filter((node) => node !== from);
        const to = targets[roll(targets.length)] as Server;
        await cluster.move(keys[at] ?? "", from, to, () => (move % 2 ? goesOn("while a slot moves") : Promise.resolve()));
        home.set(at, to);
        await goesOn("after a slot has moved");
      }
      // A master fails, and its replica replaces it. Replication is asynchronous, so no jobs are pushed until the
      // replica has all writes.
      const gate = deferred();
      pause = gate.promise;
      await until("no push is under way", () => pausing === pushers.length);
      const offset = Number(/master_repl_offset:(\d+)/.exec(await first.ask("INFO replication"))?.[1]);
      await until("it is replicated", async () => Number(/slave_repl_offset:(\d+)/.exec(await replica.ask("INFO replication"))?.[1]) >= offset);
      await first.kill();
      pause = undefined;
      gate.resolve();
      await until("the replica takes over", async () => (await replica.ask("ROLE")).includes("master"));
      await until("the cluster is up", async () => (await replica.ask("CLUSTER INFO")).includes("cluster_state:ok"));
      await goesOn("after the failover");
    } finally {
      isOpen = false;
    }
    await Promise.all(pushers);
    await until(`all are handled (seed ${seed})`, () => groups.every((group) => handled.get(group) === pushed.get(group)));
    await until("and acknowledged", async () => (await queue.stats().catch(() => null))?.claimed === 0);
    for (const { worker } of workers) await worker.stop();
    assert.deepEqual(wrong, [], `seed ${seed}`);
    assert.equal(running, 0);
    assert.ok(others.length === 2 && total(pushed) > 200, `${total(pushed)}`);
  });
}
