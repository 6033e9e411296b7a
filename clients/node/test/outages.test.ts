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
    const { ready, delayed, claimed, dead } = await queue.stats().catch(() => ({ ready: 1, delayed: 0, claimed: 0, dead: 0 }));
    return ready + delayed + claimed + dead === 0;
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
  assert.equal((await queue.stats())["acked"], 1);
});

withEach("a worker that cannot reach Redis for longer than the lease cancels its handlers", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const { events } = work<string>(place, "jobs", (job) => sleep(60_000, undefined, { signal: job.signal }), { lease: "1s" });
  await queue.push("x", { id: "a" });
  await until("it runs", async () => (await queue.stats()).claimed === 1);
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
  // It is told UNBLOCKED, then READONLY again and again; neither ends the worker.
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

withEach("a job whose CLAIM got lost runs when its lease has ended", async (place) => {
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
  // Longer than one wait, and in `IDLE_SECONDS=60 npm test` a minute.
  await sleep(1000 * Number(process.env["IDLE_SECONDS"] ?? 7));
  await new Queue(place.redis, "jobs").push(1, { id: "a" });
  await until("it is done", () => events.length > 0);
  assert.deepEqual(disconnected, []);
});

for (const [library] of LIBRARIES) {
  const child = (t: Test, server: Server): ChildProcess => {
    const script = fileURLToPath(new URL("support/child.js", import.meta.url));
    const child = spawn(process.execPath, [script, library, server.url, "jobs", "1500ms"], { stdio: ["ignore", "pipe", "inherit"] });
    t.after(() => void child.kill("SIGKILL"));
    return child;
  };

  test(`the job of a worker that was killed runs again (${library})`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    const redis = await LIBRARIES[0]![1](t, server);
    await new Queue(redis, "jobs").push(1, { id: "a" });
    const victim = child(t, server);
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
    await queue.push(1, { id: "a", attempts: 1 });
    const worker = child(t, server);
    await once(worker.stdout!, "data");
    worker.kill("SIGTERM");
    const [code] = (await once(worker, "exit")) as [number];
    assert.equal(code, 0);
    const job = await queue.get("a");
    assert.equal(job?.state, "ready");
    assert.equal(job?.attempts, 0);
  });
}
