import assert from "node:assert/strict";
import { test } from "node:test";
import { Board, checkAll, ExpiringSet, Limiter, OutcomeUnknown, Queue, Retry } from "zeitset";
import { asked, type Place, withEach } from "./support/clients.js";
import { Proxy as Tcp } from "./support/proxy.js";
import { thrown, unreadable } from "./support/thrown.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

type Send = (this: unknown, ...words: unknown[]) => Promise<unknown>;
const PLACES = ["sending", "reading", "decoding"] as const;

/** Makes the next command of the library's clients fail at a place. */
class Faults {
  next: { readonly fault: unknown } | undefined;

  constructor({ redis, test }: Pick<Place, "redis" | "test">, at: (typeof PLACES)[number]) {
    const faults = this;
    let owner = Object.getPrototypeOf(redis) as { sendCommand: Send };
    while (!Object.hasOwn(owner, "sendCommand")) owner = Object.getPrototypeOf(owner) as typeof owner;
    const send = owner.sendCommand;
    owner.sendCommand = function (...words) {
      const found = isZeitset(words[0]) ? faults.next : undefined;
      if (!found) return send.apply(this, words);
      faults.next = undefined;
      if (at === "sending") throw found.fault;
      const reply = send.apply(this, words).then(() => {
        if (at === "reading") throw found.fault;
        return unreadable(found.fault);
      });
      reply.catch(() => undefined); // a pipeline of ioredis ignores this promise
      return reply;
    };
    test.after(() => void (owner.sendCommand = send));
  }
}

/** Whether this is a command of the module: the handshakes of a connection are not. */
const isZeitset = (command: unknown): boolean =>
  String(Array.isArray(command) ? command[0] : (command as { name?: string }).name).toUpperCase().startsWith("Z");

for (const place of PLACES) {
  withEach(`a worker reconnects, whatever is thrown while it is ${place}`, async (its) => {
    const queue = new Queue<string>(its.redis, "jobs");
    const done = new Set<string>();
    const { worker, run } = work<string>(its, "jobs", (job) => void done.add(job.payload), { lease: "1s" });
    let failed: unknown;
    run.catch((error: unknown) => (failed = error));
    await until("it runs", () => worker.state === "running");
    const faults = new Faults(its, place);
    const all = thrown();
    for (const [name, fault] of all) {
      faults.next = { fault };
      await until(`${name} was thrown`, () => faults.next === undefined || failed !== undefined);
      assert.equal(failed, undefined, name);
      await until("it is back", () => worker.state === "running" || failed !== undefined);
    }
    for (const name of all.keys()) await queue.push(name);
    await until("all jobs are done", () => done.size === all.size || failed !== undefined);
    assert.equal(failed, undefined);
  });

  withEach(`a limiter says that Redis is away, whatever is thrown while it is ${place}`, async (its) => {
    const limiter = new Limiter(its.redis, "api", "1000000/1m", { onError: "allow" });
    const strict = new Limiter(its.redis, "api", "1000000/1m");
    const faults = new Faults(its, place);
    for (const [name, fault] of thrown()) {
      faults.next = { fault };
      const check = await limiter.check("ann");
      assert.ok(check.allowed && check.error, name);
      faults.next = { fault };
      await assert.rejects(strict.check("ann"), (error) => error instanceof Error, name);
      assert.equal((await limiter.check("ann")).error, undefined, name);
    }
  });
}

const CHANGES: Record<string, (redis: Place["redis"]) => Promise<unknown>> = {
  "ZEXP.POP": (redis) => new ExpiringSet(redis, "set").pop(),
  "ZEXP.REM": (redis) => new ExpiringSet(redis, "set").remove("code"),
  "ZEXP.ADD": (redis) => new ExpiringSet(redis, "set").add("new", { ttl: "1m", cap: 3 }),
  "ZLB.INCR": (redis) => new Board(redis, "board", ["points"]).incr("ann", { points: 1 }),
  "ZLB.REM": (redis) => new Board(redis, "board", ["points"]).remove("ann"),
  "ZRL.CHECK": (redis) => new Limiter(redis, "limit", "5/1m").check("ann"),
  "ZRL.MCHECK": (redis) => checkAll([new Limiter(redis, "limit", "5/1m"), "ann"]),
  "ZQ.CANCEL": (redis) => new Queue(redis, "queue").cancel("a"),
};

withEach("a command that changes something is sent once", async (place) => {
  await new Board(place.redis, "board", ["points"]).create();
  await new ExpiringSet(place.redis, "set").add(["code", "other"], { ttl: "1m" });
  await new Queue(place.redis, "queue").push("x", { id: "a" });
  const calls = asked(place);
  for (const [command, change] of Object.entries(CHANGES)) {
    const proxy = await Tcp.start(place.test, place.server.port);
    const redis = await place.connect(place.test, proxy);
    await new ExpiringSet(redis, "set").card();
    await calls(command.toLowerCase());
    proxy.loseReplyTo = command;
    await assert.rejects(change(redis), (error) => error instanceof OutcomeUnknown && error.message.startsWith(command));
    // The client is connected again, and would have repeated the command by now.
    await until("it is back", async () => (await new ExpiringSet(redis, "set").card().catch(() => -1)) >= 0);
    assert.equal(await calls(command.toLowerCase()), 1, command);
  }
});

withEach("a delay beyond all times is reported", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const { events } = work(place, "jobs", () => {
    throw new Retry({ after: "9999999w", hold: true });
  });
  await queue.push("x", { id: "a", group: "g" });
  await until("it is retried", () => events.length > 0);
  assert.deepEqual([events, (await queue.get("a"))?.state], [["retried a"], "delayed"]);
});

withEach("a handler that blocks the event loop loses its lease", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const runs: number[] = [];
  const { events } = work(place, "jobs", (job) => {
    runs.push(job.attempt);
    while (job.attempt === 1 && Date.now() < job.deadlineMs + 50) Math.random();
  }, { lease: "600ms" });
  await queue.push("x", { id: "a" });
  await until("it is done", () => events.includes("completed a"));
  assert.deepEqual([runs, events], [[1, 2], ["lost a", "completed a"]]);
});

test("the event connected has an object", { timeout: 60_000 }, async (t) => {
  const { Server } = await import("./support/server.js");
  const { ioredis } = await import("./support/clients.js");
  const server = await Server.start(t);
  const { worker } = work({ redis: await ioredis(t, server), test: t }, "jobs", () => undefined);
  const errors = await new Promise((resolve) => worker.on("connected", ({ error }) => resolve(error)));
  assert.equal(errors, undefined);
});
