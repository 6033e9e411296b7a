import "reflect-metadata";
import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import rateLimit from "@fastify/rate-limit";
import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import express from "express";
import { type Options, rateLimit as expressRateLimit } from "express-rate-limit";
import { fastify } from "fastify";
import { ExpressStore, fastifyStore, NestStorage, type StoreOptions } from "zeitset";
import { type Place, withEach } from "./support/clients.js";
import type { Test } from "./support/server.js";
import { until } from "./support/until.js";

type Ask = (path?: string) => Promise<Response>;
const asking = (url: string): Ask => (path = "/") => fetch(`${url}${path}`);
const statuses = async (ask: Ask, times: number, path?: string): Promise<number[]> => {
  const all = [];
  for (let n = 0; n < times; n++) all.push((await ask(path)).status);
  return all;
};

// --- express-rate-limit ------------------------------------------------------------------------------------------------------

async function withExpress({ redis, test }: Place, options: Partial<Options>, storeOptions: StoreOptions = {}): Promise<Ask> {
  const app = express();
  app.use(expressRateLimit({ windowMs: 60_000, limit: 2, ...options, store: new ExpressStore(redis, "api", storeOptions) }));
  app.get("/", (_, response) => void response.send("hello"));
  app.get("/broken", (_, response) => void response.status(500).send("broken"));
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  test.after(() => void listener.close());
  return asking(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`);
}

withEach("express-rate-limit limits through the store, and every instance counts the same", async (place) => {
  const [ask, other] = [await withExpress(place, {}), await withExpress(place, {})];
  const first = await ask();
  assert.equal(first.status, 200);
  assert.equal(first.headers.get("x-ratelimit-remaining"), "1");
  assert.equal((await other()).status, 200);
  const denied = await ask();
  assert.equal(denied.status, 429);
  const wait = Number(denied.headers.get("retry-after"));
  assert.ok(wait > 50 && wait <= 60, `${wait}`);
  assert.equal((await other()).status, 429);
});

withEach("express-rate-limit lets a client in again that has gone on asking", async (place) => {
  const ask = await withExpress(place, { windowMs: 400 });
  await statuses(ask, 3);
  await until("it is allowed while it asks", async () => (await ask()).status === 200, 5000);
});

withEach("express-rate-limit takes back what failed, and a denial takes nothing back", async (place) => {
  const ask = await withExpress(place, { skipFailedRequests: true });
  assert.deepEqual(await statuses(ask, 5, "/broken"), [500, 500, 500, 500, 500]);
  await until("all are taken back", async () => (await place.call("EXISTS", "api:127.0.0.1")) === 0);
  assert.deepEqual(await statuses(ask, 2), [200, 200]);
  assert.deepEqual(await statuses(ask, 10), Array(10).fill(429), "denials have failed, and are no hits of others");
});

withEach("express-rate-limit takes back what succeeded", async (place) => {
  const ask = await withExpress(place, { skipSuccessfulRequests: true });
  for (let n = 0; n < 5; n++) {
    assert.equal((await ask()).status, 200);
    await until("it is taken back", async () => (await place.call("EXISTS", "api:127.0.0.1")) === 0);
  }
  assert.deepEqual(await statuses(ask, 3, "/broken"), [500, 500, 429]);
});

withEach("express-rate-limit with a limit for each request counts all requests, since the store cannot know the limit", async (place) => {
  const ask = await withExpress(place, { windowMs: 86_400_000, limit: () => 3 });
  assert.deepEqual(await statuses(ask, 5), [200, 200, 200, 429, 429]);
});

withEach("express-rate-limit denies all with a limit of 0, and looks and resets", async (place) => {
  const none = await withExpress(place, { limit: 0, validate: false });
  assert.deepEqual(await statuses(none, 2), [429, 429]);
  const limiter = expressRateLimit({ windowMs: 60_000, limit: 2, store: new ExpressStore(place.redis, "seen") });
  assert.equal(await limiter.getKey("ann"), undefined);
  const store = new ExpressStore(place.redis, "seen");
  await assert.rejects(store.increment("ann"), /no rateLimit/);
  store.init({ windowMs: 60_000, limit: 2 });
  await store.increment("ann");
  assert.equal((await limiter.getKey("ann"))?.totalHits, 1);
  await store.resetKey("ann");
  assert.equal(await limiter.getKey("ann"), undefined);
});

// --- @fastify/rate-limit -----------------------------------------------------------------------------------------------------

async function withFastify({ redis, test }: Pick<Place, "redis" | "test">, options: object = {}): Promise<Ask & { app: ReturnType<typeof fastify> }> {
  const app = fastify();
  await app.register(rateLimit, { max: 2, timeWindow: "1 minute", store: fastifyStore(redis, "api"), ...options });
  app.get("/", async () => "hello");
  app.get("/other", async () => "other");
  app.get("/costly", { config: { rateLimit: { max: 1, timeWindow: 30_000 } } }, async () => "costly");
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  test.after(() => void app.close());
  return Object.assign(asking(url), { app });
}

withEach("@fastify/rate-limit limits through the store, routes with settings of their own apart", async (place) => {
  const [ask, other] = [await withFastify(place), await withFastify(place)];
  const first = await ask();
  assert.deepEqual([first.status, first.headers.get("x-ratelimit-remaining")], [200, "1"]);
  assert.equal((await other("/other")).status, 200);
  const denied = await ask();
  assert.equal(denied.status, 429);
  const wait = Number(denied.headers.get("retry-after"));
  assert.ok(wait > 50 && wait <= 60, `${wait}`);
  assert.deepEqual(await statuses(other, 2, "/costly"), [200, 429]);
  assert.equal(await place.call("EXISTS", "api:127.0.0.1", "api:GET/costly:127.0.0.1"), 2);
});

withEach("@fastify/rate-limit looks at a limit without taking from it", async (place) => {
  const { app } = await withFastify(place);
  const limit = app.createRateLimit();
  const seen: unknown[] = [];
  app.server.close();
  const looking = fastify();
  await looking.register(rateLimit, { global: false, max: 2, timeWindow: 60_000, store: fastifyStore(place.redis, "look") });
  const check = looking.createRateLimit();
  looking.get("/", async (request) => {
    for (const increment of [false, true, false, false]) seen.push(await check(request, { increment }));
    return "hello";
  });
  await looking.inject("/");
  await looking.close();
  assert.ok(limit);
  assert.deepEqual(seen.map((state) => (state as { remaining: number }).remaining), [2, 1, 1, 1]);
});

withEach("@fastify/rate-limit: a client that goes on is banned, and stays banned for a window", async (place) => {
  const ask = await withFastify(place, { ban: 2, store: fastifyStore(place.redis, "api", { remember: false }) });
  assert.deepEqual(await statuses(ask, 6), [200, 200, 429, 429, 403, 403]);
  await place.call("DEL", "api:127.0.0.1");
  assert.equal((await ask()).status, 403, "units are free, but the client is banned");
  assert.ok(Number(await place.call("PTTL", "api:{127.0.0.1}:denied")) > 50_000, "for a whole window");
  await place.call("PEXPIRE", "api:{127.0.0.1}:denied", "1");
  await until("the ban is over", async () => (await ask()).status === 200);
  const atOnce = await withFastify(place, { ban: 0, store: fastifyStore(place.redis, "other") });
  assert.deepEqual(await statuses(atOnce, 3), [200, 200, 403]);
});

withEach("@fastify/rate-limit: each denied request prolongs the block, longer each time if wished", async (place) => {
  const waits = async (options: object): Promise<number[]> => {
    const found: number[] = [];
    const ask = await withFastify(place, options);
    for (let at = 0; at < 6; at++) found.push(Number((await ask()).headers.get("retry-after") ?? 0));
    return found;
  };
  assert.deepEqual(await waits({ continueExceeding: true }), [0, 0, 60, 60, 60, 60]);
  const store = fastifyStore(place.redis, "backoff");
  assert.deepEqual(await waits({ exponentialBackoff: true, store }), [0, 0, 60, 120, 240, 480]);
});

withEach("@fastify/rate-limit hears of errors, and skips them if it is told to", async ({ redis, test, server }) => {
  const store = fastifyStore(redis, "api", { timeout: "200ms" });
  const [strict, lenient] = [await withFastify({ redis, test }, { store }), await withFastify({ redis, test }, { store, skipOnError: true })];
  await server.frozen(async () => {
    assert.equal((await strict()).status, 500);
    assert.equal((await lenient()).status, 200);
  });
});

// --- @nestjs/throttler -------------------------------------------------------------------------------------------------------

async function withNest(test: Test, storage: NestStorage, throttlers: { ttl: number; limit: number; blockDuration?: number }[]): Promise<Ask> {
  class Cats {
    hello(): string {
      return "hello";
    }
  }
  Controller()(Cats);
  Get()(Cats.prototype, "hello", Object.getOwnPropertyDescriptor(Cats.prototype, "hello") as PropertyDescriptor);
  class App {}
  const imports = [ThrottlerModule.forRoot({ throttlers, storage })];
  Module({ imports, controllers: [Cats], providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }] })(App);
  const app = await NestFactory.create(App, { logger: false });
  await app.listen(0, "127.0.0.1");
  test.after(() => app.close());
  return asking(await app.getUrl());
}

withEach("NestJS throttles through the storage, and every instance counts the same", async ({ redis, test }) => {
  const throttlers = [{ ttl: 60_000, limit: 2 }];
  const [ask, other] = [await withNest(test, new NestStorage(redis), throttlers), await withNest(test, new NestStorage(redis), throttlers)];
  const first = await ask();
  assert.deepEqual([first.status, first.headers.get("x-ratelimit-remaining"), first.headers.get("x-ratelimit-reset")], [200, "1", "60"]);
  assert.equal((await other()).status, 200);
  for (const instance of [ask, other, ask]) {
    const denied = await instance();
    assert.equal(denied.status, 429);
    const wait = Number(denied.headers.get("retry-after"));
    assert.ok(wait > 50 && wait <= 60, `${wait}`);
  }
});

withEach("NestJS blocks for the blockDuration, in all instances, and allows at once where it is 0", async ({ redis, test, call }) => {
  const storage = (name: string): NestStorage => new NestStorage(redis, name);
  const long = [{ ttl: 300, limit: 1, blockDuration: 3_600_000 }];
  const [ask, other] = [await withNest(test, storage("long"), long), await withNest(test, storage("long"), long)];
  assert.deepEqual(await statuses(ask, 2), [200, 429]);
  await until("the limit is free", async () => ((await call("KEYS", "long:*")) as string[]).every((key) => key.endsWith(":blocked")));
  assert.equal((await other()).status, 429, "the block goes on");
  assert.deepEqual(((await call("KEYS", "long:*")) as string[]).length, 1, "and has taken no unit");
  const none = await withNest(test, storage("none"), [{ ttl: 300, limit: 1, blockDuration: 0 }]);
  await statuses(none, 2);
  await until("it is allowed while it asks", async () => (await none()).status === 200, 5000);
});

test("stores refuse what no limit can be", async () => {
  const client = { sendCommand: async () => null, multi: () => null };
  await assert.rejects(new NestStorage(client).increment("key", 0, 1, 0), RangeError);
  assert.deepEqual((await new NestStorage(client).increment("key", 1000, 0, 0)).totalHits, 1);
});
