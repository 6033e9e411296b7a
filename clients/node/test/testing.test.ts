import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import * as zeitset from "zeitset";
import { Clock, startServer } from "zeitset/testing";
import { ioredis, withEach } from "./support/clients.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

test("a server with the module starts and stops", { timeout: 60_000 }, async (t) => {
  const module = process.env["ZEITSET_MODULE"];
  const server = await startServer({ ...(module && { module }), options: ["--maxmemory", "50mb"] });
  t.after(() => server.stop());
  const redis = await ioredis(t, server);
  assert.equal(await new zeitset.Queue(redis, "jobs").push(1, { id: "a" }), "a");
  await server.stop();
  await assert.rejects(startServer({ module: "/no/such/module.so" }), /has ended[^]*module/);
  await assert.rejects(startServer({ ...(module && { module }), program: "no-such-server" }), /ENOENT/);
});

withEach("a clock moves delayed and recurring jobs on", async (place) => {
  const queue = new zeitset.Queue<string>(place.redis, "jobs");
  const clock = new Clock(place.redis, "jobs");
  const cron = [new zeitset.Cron("report", "0 3 * * *", { tz: "Europe/Berlin" })];
  const { events, worker } = work<string>(place, "jobs", () => undefined, { clock, cron });
  await queue.push("x", { id: "later", delay: "36h" });
  await until("the report waits", async () => (await queue.stats())?.delayed === 2);
  for (const day of [1, 2, 3]) {
    await clock.advance("1d");
    await until("it has run once a day", () => events.filter((event) => event === "completed report").length === day);
    await until("the next one waits", async () => (await queue.get("report"))?.state === "delayed");
  }
  assert.equal(events.filter((event) => event === "completed later").length, 1);
  assert.equal(events.length, 4);
  await worker.stop();
});

test("import and require give the same classes", async () => {
  const required = createRequire(import.meta.url)("zeitset") as typeof zeitset;
  assert.equal(required.Retry, zeitset.Retry);
  for (const name of Object.keys(required)) assert.ok(name in zeitset, name);
});
