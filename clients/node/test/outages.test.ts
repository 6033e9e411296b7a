import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Queue } from "zeitset";
import { LIBRARIES, withEach } from "./support/clients.js";
import { Proxy } from "./support/proxy.js";
import { Server, type Test } from "./support/server.js";
import { deferred, until } from "./support/until.js";
import { work } from "./support/work.js";

withEach("a restart of the server loses no job, and the worker comes back by itself", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  const done = new Set<number>();
  const { worker } = work<number>(place, "jobs", async (job) => {
    await sleep(5);
    done.add(job.payload);
  }, { lease: "2s" });
  await queue.pushMany(Array.from({ length: 300 }, (_, payload) => ({ payload })));
  await until("it has begun", () => done.size > 20);
  await place.server.restart();
  await until("some more are done", () => done.size > 100);
  await place.server.kill();
  await until("it has noticed", () => worker.state === "reconnecting");
  await sleep(300);
  await place.server.run();
  await until("all are done", () => done.size === 300);
  await until("the queue is empty", async () => {
    const stats = await queue.stats().catch(() => null);
    return stats !== null && stats.ready + stats.delayed + stats.claimed + stats.dead === 0;
  });
});

withEach("what is finished while Redis is away is acknowledged when it is back", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const goOn = deferred();
  let runs = 0;
  const { events, worker } = work<string>(place, "jobs", async () => {
    runs += 1;
    await goOn.promise;
  });
  await queue.push("x", { id: "a" });
  await until("it runs", () => runs === 1);
  await place.server.kill();
  await until("it has noticed", () => worker.state === "reconnecting");
  goOn.resolve();
  await sleep(200);
  await place.server.run();
  await until("it is told", () => events.length > 0);
  assert.deepEqual(events, ["completed a"]);
  assert.equal(runs, 1);
  assert.equal((await queue.stats())?.["acked"], 1);
});

withEach("a worker that cannot reach Redis for longer than the lease cancels its handlers", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const { events } = work<string>(place, "jobs", (job) => sleep(60_000, undefined, { signal: job.signal }), { lease: "1s" });
  await queue.push("x", { id: "a" });
  await until("it runs", async () => (await queue.stats())?.claimed === 1);
  await place.server.frozen(async () => {
    await until("it is cancelled", () => events.length > 0);
  });
  assert.equal(events[0], "lost a");
});

withEach("a master that becomes a replica and back is waited for", async (place) => {
  const other = await Server.start(place.test);
  const queue = new Queue<number>(place.redis, "jobs");
  const { events, worker, disconnected, run } = work<number>(place, "jobs", () => undefined);
  await queue.push(1, { id: "a" });
  await until("it is done", () => events.length === 1);
  await until("it waits", async () => /zeitset_clients_waiting:1/.test(String(await place.call("INFO", "zeitset"))));
  await place.call("REPLICAOF", "127.0.0.1", String(other.port));
  // The worker gets UNBLOCKED, then READONLY again and again. Neither error ends the worker.
  await until("it tries again", () => disconnected.length >= 1 && worker.state === "reconnecting");
  await sleep(500);
  await place.call("REPLICAOF", "NO", "ONE");
  await until("it is back", () => worker.state === "running");
  await queue.push(1, { id: "b" });
  await until("it is done", () => events.includes("completed b"));
  await worker.stop();
  await run;
});

withEach("an ACK whose reply got lost is sent again, and is no stale one", async (place) => {
  const proxy = await Proxy.start(place.test, place.server.port);
  const queue = new Queue<number>(place.redis, "jobs");
  const redis = await place.connect(place.test, proxy);
  let runs = 0;
  const { events } = work<number>({ ...place, redis }, "jobs", () => {
    runs += 1;
    proxy.loseReplyTo = "ZQ.ACK";
  });
  await queue.push(1, { id: "a" });
  await until("it is told", () => events.length > 0);
  assert.equal(proxy.lost, 1);
  assert.deepEqual(events, ["completed a"]);
  assert.equal(runs, 1);
});

withEach("a job whose CLAIM got lost runs when its lease has expired", async (place) => {
  const proxy = await Proxy.start(place.test, place.server.port);
  const queue = new Queue<number>(place.redis, "jobs");
  const redis = await place.connect(place.test, proxy);
  const attempts: number[] = [];
  await queue.push(1, { id: "a" });
  proxy.loseReplyTo = "ZQ.CLAIM";
  const { events } = work<number>({ ...place, redis }, "jobs", (job) => attempts.push(job.attempt), { lease: "1s" });
  await until("it is done", () => events.length > 0);
  assert.equal(proxy.lost, 1);
  assert.deepEqual(attempts, [2]);
});

withEach("an idle queue breaks no connection, whatever timeouts the client has", async (place) => {
  const redis = await place.connect(place.test, place.server, { timeoutMs: 500 });
  const { worker, disconnected, events } = work({ ...place, redis }, "jobs", () => undefined);
  await until("it runs", () => worker.state === "running");
  // Longer than the wait of one claim; with `IDLE_SECONDS=60 npm test`, a minute.
  await sleep(1000 * Number(process.env["IDLE_SECONDS"] ?? 7));
  await new Queue(place.redis, "jobs").push(1, { id: "a" });
  await until("it is done", () => events.length > 0);
  assert.deepEqual(disconnected, []);
});

for (const [library] of LIBRARIES) {
  const child = (t: Test, server: Server, ...queues: string[]): ChildProcess => {
    const script = fileURLToPath(new URL("support/child.js", import.meta.url));
    const words = [script, library, server.url, "1500ms", ...queues];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
    t.after(() => void child.kill("SIGKILL"));
    return child;
  };

  test(`the job of a worker that was killed runs again (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await LIBRARIES[0]![1](t, server);
    await new Queue(redis, "jobs").push(1, { id: "a" });
    const victim = child(t, server, "jobs");
    await once(victim.stdout!, "data");
    victim.kill("SIGKILL");
    const attempts: number[] = [];
    const { events } = work({ redis, test: t }, "jobs", (job) => attempts.push(job.attempt));
    await until("it is done", () => events.length > 0);
    assert.deepEqual(attempts, [2]);
  });

  test(`SIGTERM gives the job back, and the process ends (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await LIBRARIES[0]![1](t, server);
    const queue = new Queue(redis, "jobs");
    await queue.push(1, { id: "a", maxAttempts: 1 });
    const worker = child(t, server, "jobs");
    await once(worker.stdout!, "data");
    worker.kill("SIGTERM");
    const [code] = (await once(worker, "exit")) as [number];
    assert.equal(code, 0);
    const job = await queue.get("a");
    assert.equal(job?.state, "ready");
    assert.equal(job?.attempts, 0);
  });

  test(`SIGTERM stops all workers of a process (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await LIBRARIES[0]![1](t, server);
    const queues = ["a", "b"].map((key) => new Queue(redis, key));
    for (const queue of queues) await queue.push(1, { id: "x", maxAttempts: 1 });
    const workers = child(t, server, "a", "b");
    let begun = 0;
    workers.stdout!.on("data", (data: Buffer) => (begun += data.toString().trim().split("\n").length));
    await until("both have begun", () => begun === 2);
    workers.kill("SIGTERM");
    assert.deepEqual(await once(workers, "exit"), [0, null]);
    for (const queue of queues) assert.equal((await queue.get("x"))?.state, "ready");
  });

  test(`a worker that stood still runs no job whose lease is over (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await LIBRARIES[0]![1](t, server);
    const queue = new Queue(redis, "jobs");
    const frozen = child(t, server, "jobs");
    let output = "";
    frozen.stdout!.on("data", (data: Buffer) => (output += data.toString()));
    // The worker's process stands still while its claim waits, so the server still gives a job to it.
    await until("it was given a job", async () => {
      if (!(await server.ask("INFO zeitset")).includes("zeitset_clients_waiting:1")) return false;
      frozen.kill("SIGSTOP");
      await queue.push(1, { id: "a" });
      if ((await queue.stats())?.claimed === 1) return true;
      await queue.cancel("a");
      frozen.kill("SIGCONT");
      return false;
    });
    const { events, worker } = work({ redis, test: t }, "jobs", () => undefined);
    await until("another worker has done it", () => events.length > 0);
    await worker.stop();
    frozen.kill("SIGCONT");
    await queue.push(1, { id: "b" });
    await until("it works again", () => output.includes("b"));
    assert.equal(output, "b\n");
  });
}

withEach("a handler that returns because its lease is lost has not done the job", async (place) => {
  const proxy = await Proxy.start(place.test, place.server.port);
  const redis = await place.connect(place.test, proxy);
  const queue = new Queue<string>(place.redis, "jobs");
  const runs: string[] = [];
  const { events } = work<string>({ ...place, redis }, "jobs", async (job) => {
    runs.push(`${job.id} ${job.attempt}`);
    if (job.attempt > 1) return;
    await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
    assert.throws(() => job.check(), { name: "LeaseLost" });
    if (job.payload === "obeys") return;
    job.done();
    throw new Error("it is done all the same");
  }, { lease: "1s" });
  await queue.push("obeys", { id: "a" });
  await queue.push("done", { id: "b" });
  await until("both run", () => runs.length === 2);
  proxy.isPartitioned = true;
  await until("both are lost", () => events.length === 2);
  proxy.isPartitioned = false;
  await until("both are told", () => events.includes("completed a") && events.includes("completed b"));
  await until("the queue is empty", async () => (await queue.stats())?.["acked"] === 2);
  assert.ok(runs.includes("a 2"), `${runs}`);
});

withEach("a server that stands still shifts no replies, and no job is lost or done twice", async (place) => {
  const queue = new Queue<number>(place.redis, "jobs");
  const runs = new Map<number, number>();
  const { events, run, worker } = work<number>(place, "jobs", async (job) => {
    await sleep(20 * Math.random());
    runs.set(job.payload, (runs.get(job.payload) ?? 0) + 1);
  }, { lease: "20s" });
  const pushed = 400;
  for (let at = 0; at < pushed; at += 100) {
    await queue.pushMany(Array.from({ length: 100 }, (_, n) => ({ payload: at + n })));
    // The longer outage exceeds the worker's time limit for a reply, which is a third of its lease.
    await place.server.frozen(() => sleep(at === 200 ? 8000 : 300));
  }
  await until("all are done", () => runs.size === pushed && worker.state === "running");
  await until("the queue is empty", async () => (await queue.stats())?.["acked"] === pushed);
  await worker.stop();
  await run;
  assert.ok(!events.some((event) => event.startsWith("lost")), `${events.map((event) => event.split(" ")[0])}`);
});

const GARBAGE = ["HTTP/1.1 502 Bad Gateway\r\n\r\n", ":abc\r\n", "-ERR proxy: backend timeout\r\n", "+OK\r\n", ":7\r\n", "*1\r\n+OK\r\n"];

for (const command of ["ZQ.CLAIM", "ZQ.ACK", "ZQ.EXTEND", "ZQ.NACK", "MULTI"]) {
  withEach(`what is no reply of the server to ${command} is a lost connection`, async (place) => {
    const queue = new Queue<number>(place.redis, "jobs");
    for (const [at, reply] of GARBAGE.entries()) {
      const proxy = await Proxy.start(place.test, place.server.port);
      const redis = await place.connect(place.test, proxy);
      const goOn = deferred();
      const { events, worker, run, disconnected } = work<number>({ ...place, redis }, "jobs", async (job) => {
        if (command === "MULTI") job.chain({ key: "jobs", words: ["EXISTS", "jobs"] });
        if (command === "ZQ.EXTEND") await goOn.promise;
        if (command === "ZQ.NACK" && job.attempt === 1) throw new Error("once more");
      }, { lease: "2s", backoff: () => "1ms" });
      await until("it runs", () => worker.state === "running");
      proxy.answer = [command, reply];
      const id = `job ${at} of ${command.slice(3)}`;
      await queue.push(1, { id });
      await until(`${id}: ${reply} is read`, () => proxy.answer === undefined);
      await until(`${id}: ${reply} is noticed`, () => disconnected.length > 0);
      goOn.resolve();
      await until(`${id}: ${reply} passes`, () => events.includes(`completed ${id}`));
      await worker.stop({ grace: 0 });
      await run;
    }
    assert.equal((await queue.stats())?.ready, 0);
  });
}

withEach("without memory heartbeats go on, and what is finished is kept until it can be told", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const goOn = deferred();
  const runs: string[] = [];
  const { worker, events } = work<string>(place, "jobs", async (job) => {
    runs.push(job.id);
    if (job.payload === "long") await goOn.promise;
    if (job.payload === "chains") job.chain(queue.calls.push("next", { id: `${job.id}:next` }));
  }, { lease: "1s", concurrency: 2 });
  const refused: string[] = [];
  worker.on("refused", ({ error }) => refused.push(error.message));
  await queue.push("long", { id: "long" });
  await until("it runs", () => runs.length === 1);
  await queue.push("chains", { id: "chains", delay: "300ms" });
  await place.call("CONFIG", "SET", "maxmemory", "1");
  await until("it is refused", () => refused.length > 0);
  await sleep(3000);
  assert.equal(events.length, 0, `${events}`);
  assert.equal((await queue.stats())?.["expiredLeases"], 0);
  await place.call("CONFIG", "SET", "maxmemory", "0");
  goOn.resolve();
  await until("all are done", () => events.filter((event) => event.startsWith("completed")).length === 3);
  assert.deepEqual(runs.filter((id) => !id.endsWith("next")), ["long", "chains"]);
  assert.ok(refused.every((text) => text.startsWith("OOM")));
});
