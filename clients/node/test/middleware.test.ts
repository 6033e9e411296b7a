import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { serve } from "@hono/node-server";
import express from "express";
import { fastify } from "fastify";
import { type Context, Hono } from "hono";
import { clientNetwork, expressLimit, fastifyLimit, honoLimit, Limiter } from "zeitset";
import { type Place, withEach } from "./support/clients.js";
import type { Test } from "./support/server.js";

type Ask = (path: string, headers?: Record<string, string>) => Promise<Response>;

interface Service {
  readonly minute: Limiter;
  readonly day: Limiter;
  readonly costly: Limiter;
  readonly shy: Limiter;
  readonly block: Limiter;
}

const service = ({ redis }: Place): Service => ({
  minute: new Limiter(redis, "minute", "2/1m"),
  day: new Limiter(redis, "day", "10/1d"),
  costly: new Limiter(redis, "costly", "5/1m"),
  shy: new Limiter(redis, "minute", "2/1m", { onError: "deny", timeout: "300ms" }),
  block: new Limiter(redis, "block", "1/10m"),
});

async function withExpress(t: Test, { minute, day, costly, shy, block }: Service): Promise<Ask> {
  const app = express();
  const name = (request: express.Request): string | null => request.get("x-api-key") ?? null;
  const hello = (_: express.Request, response: express.Response): void => void response.send("hello");
  app.get("/one", expressLimit(minute), hello);
  app.get("/several", expressLimit<express.Request>([minute, day], { key: name }), hello);
  app.get("/costly/:n", expressLimit<express.Request>(costly, { cost: (request) => Number(request.params["n"]) }), hello);
  app.get("/shy", expressLimit(shy), hello);
  app.get("/block", expressLimit<express.Request>(minute, { key: name, block }), hello);
  app.get("/both", expressLimit(day), expressLimit(minute), hello);
  app.get("/broken", expressLimit(minute), () => {
    throw Object.assign(new Error("broken"), { status: 500 });
  });
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  t.after(() => void listener.close());
  const { port } = listener.address() as AddressInfo;
  return (path, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
}

async function withFastify(t: Test, { minute, day, costly, shy, block }: Service): Promise<Ask> {
  const app = fastify();
  type Request = { ip: string; headers: Record<string, string | string[] | undefined>; params: unknown };
  const name = (request: Request): string | null => (request.headers["x-api-key"] as string | undefined) ?? null;
  const hello = async (): Promise<string> => "hello";
  app.get("/one", { onRequest: fastifyLimit(minute) }, hello);
  app.get("/several", { onRequest: fastifyLimit<Request>([minute, day], { key: name }) }, hello);
  const cost = (request: Request): number => Number((request.params as { n: string }).n);
  app.get("/costly/:n", { onRequest: fastifyLimit<Request>(costly, { cost }) }, hello);
  app.get("/shy", { onRequest: fastifyLimit(shy) }, hello);
  app.get("/block", { onRequest: fastifyLimit<Request>(minute, { key: name, block }) }, hello);
  app.get("/both", { onRequest: [fastifyLimit(day), fastifyLimit(minute)] }, hello);
  app.get("/broken", { onRequest: fastifyLimit(minute) }, async () => {
    throw new Error("broken");
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  t.after(() => void app.close());
  return (path, headers = {}) => fetch(`${url}${path}`, { headers });
}

/** A client that exceeds two requests a minute is blocked for ten minutes, even if units are available sooner. */
async function blocked(ask: Ask, { minute, block }: Pick<Service, "minute" | "block">): Promise<void> {
  const send = (key: string): Promise<Response> => ask("/block", { "x-api-key": key });
  const violated = async (response: Response): Promise<string[]> => {
    assert.equal(response.status, 429);
    const wait = Number(response.headers.get("retry-after"));
    assert.ok(wait > 60 && wait <= 600, `the wait is that of the block: ${wait}`);
    return ((await response.json()) as Record<"violated-policies", string[]>)["violated-policies"];
  };
  for (let n = 0; n < 2; n++) assert.equal((await send("{eve}")).status, 200);
  assert.deepEqual(await violated(await send("{eve}")), ["minute", "block"]);
  assert.equal((await send("{bob}")).status, 200);
  await minute.reset("{eve}");
  assert.equal((await block.peek("{eve}", { cost: 0 })).allowed, false, "all processes see the block");
  assert.ok((await violated(await send("{eve}"))).includes("block"), "although units are available");
  await block.reset("{eve}");
  assert.equal((await send("{eve}")).status, 200);
}

for (const [framework, start] of [["Express", withExpress], ["Fastify", withFastify]] as const) {
  withEach(`${framework} blocks a client that exceeded its limit`, async (place) => {
    const limiters = service(place);
    await blocked(await start(place.test, limiters), limiters);
  });

  withEach(`${framework} answers 429 where a limit denies, with headers that hold`, async (place) => {
    const ask = await start(place.test, service(place));
    const first = await ask("/one");
    assert.equal(first.status, 200);
    assert.equal(await first.text(), "hello");
    assert.equal(first.headers.get("ratelimit-policy"), '"minute";q=2;w=60');
    assert.equal(first.headers.get("ratelimit"), '"minute";r=1;t=60');
    assert.equal(first.headers.get("retry-after"), null);
    await ask("/one");
    const denied = await ask("/one");
    assert.equal(denied.status, 429);
    const wait = Number(denied.headers.get("retry-after"));
    assert.ok(wait >= 1 && wait <= 60, `${wait}`);
    assert.match(denied.headers.get("content-type") ?? "", /^application\/problem\+json/);
    assert.deepEqual(await denied.json(), {
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Request cannot be satisfied as assigned quota has been exceeded",
      status: 429,
      "violated-policies": ["minute"],
    });
  });

  withEach(`${framework} takes from several limits, by a key of its own`, async (place) => {
    const ask = await start(place.test, service(place));
    assert.equal((await ask("/several")).headers.get("ratelimit"), null, "no key, no limit");
    const first = await ask("/several", { "x-api-key": "{ann}" });
    assert.equal(first.headers.get("ratelimit"), '"minute";r=1;t=60, "day";r=9;t=86400');
    await ask("/several", { "x-api-key": "{ann}" });
    assert.equal((await ask("/several", { "x-api-key": "{ann}" })).status, 429);
    assert.equal((await ask("/several", { "x-api-key": "{bob}" })).status, 200);
  });

  withEach(`${framework} tells of the limits of the application and of the route`, async (place) => {
    const ask = await start(place.test, service(place));
    const both = await ask("/both");
    assert.equal(both.headers.get("ratelimit-policy"), '"day";q=10;w=86400, "minute";q=2;w=60');
    assert.match(both.headers.get("ratelimit") ?? "", /^"day";r=9;t=\d+, "minute";r=1;t=\d+$/);
    const broken = await ask("/broken");
    assert.equal(broken.status, 500);
    assert.equal(broken.headers.get("ratelimit-policy"), '"minute";q=2;w=60');
    await ask("/both");
    const denied = await ask("/both");
    assert.equal(denied.status, 429);
    assert.ok(Number(denied.headers.get("retry-after")) <= 60);
  });

  withEach(`${framework} answers an error, not 429, to a cost that never fits`, async (place) => {
    const ask = await start(place.test, service(place));
    assert.equal((await ask("/costly/5")).status, 200);
    const never = await ask("/costly/6");
    assert.equal(never.status, 500);
    assert.equal(never.headers.get("retry-after"), null);
  });

  withEach(`${framework} answers 503 where Redis is away and the limiter denies, and 500 where it raises`, async (place) => {
    const ask = await start(place.test, service(place));
    await ask("/shy");
    await place.server.kill();
    const away = await ask("/shy");
    assert.equal(away.status, 503);
    assert.equal(away.headers.get("ratelimit-policy"), '"minute";q=2;w=60');
    const { type, "violated-policies": policies } = (await away.json()) as Record<string, unknown>;
    assert.equal(type, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert.deepEqual(policies, ["minute"]);
    assert.equal((await ask("/one")).status, 500);
  });
}

interface Identity {
  readonly name: string;
  readonly peer: string | null;
  readonly forwarded: string | null;
  readonly proxies: number;
  readonly ipv6: number;
  readonly key: string;
}

test("a client has the same key as in Python", () => {
  const docs = process.env["DOCS"] ?? fileURLToPath(new URL("../../../../docs", import.meta.url));
  const cases = JSON.parse(readFileSync(join(docs, "../clients/identity-cases.json"), "utf8")) as Identity[];
  assert.ok(cases.length > 40);
  for (const { name, peer, forwarded, proxies, ipv6, key } of cases) {
    const headers = forwarded === null ? {} : { "x-forwarded-for": forwarded };
    assert.equal(clientNetwork({ proxies, ipv6 })({ ip: peer ?? undefined, headers }), key, name);
  }
  for (const ipv6 of [0, 129, 1.5]) assert.throws(() => clientNetwork({ ipv6 }), RangeError);
});

test("a fallback is warned of once", () => {
  const program = `import { clientNetwork } from "zeitset"; for (const ip of [undefined, "", "unix:"]) console.log(clientNetwork()({ ip }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  assert.equal(stdout, "unknown\nunknown\nunknown\n");
  assert.equal(stderr.split("share the limit").length, 2, stderr);
});

withEach("Hono answers 429 where a limit denies, with headers that hold", async (place) => {
  const { minute, day, costly, shy, block } = service(place);
  const app = new Hono();
  app.get("/one", honoLimit(minute), (context) => context.text("hello"));
  const byName = honoLimit<Context>([minute, day], { key: (context) => context.req.header("x-api-key") ?? null });
  app.get("/several", byName, (context) => context.text("hello"));
  const cost = (context: Context): number => Number(context.req.param("n"));
  app.get("/costly/:n", honoLimit<Context>(costly, { cost }), (context) => context.text("hello"));
  app.get("/shy", honoLimit(shy), (context) => context.text("hello"));
  const blocks = honoLimit<Context>(minute, { key: (context) => context.req.header("x-api-key") ?? null, block });
  app.get("/block", blocks, (context) => context.text("hello"));
  app.get("/both", honoLimit(day), honoLimit(minute), (context) => context.text("hello"));
  app.get("/broken", honoLimit(day), () => {
    throw new Error("broken");
  });
  app.onError((error, context) => context.text(error.message, 500));
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  await new Promise((resolve) => server.once("listening", resolve));
  place.test.after(() => void server.close());
  const ask: Ask = (path, headers = {}) => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, { headers });

  await blocked(ask, { minute, block });
  const both = await ask("/both");
  assert.equal(await both.text(), "hello");
  assert.equal(both.headers.get("ratelimit-policy"), '"day";q=10;w=86400, "minute";q=2;w=60');
  assert.equal((await ask("/one")).headers.get("ratelimit"), '"minute";r=0;t=60');
  const denied = await ask("/both");
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("content-type"), "application/problem+json");
  assert.ok(Number(denied.headers.get("retry-after")) > 0);
  assert.equal(denied.headers.get("ratelimit-policy"), '"day";q=10;w=86400, "minute";q=2;w=60');
  assert.deepEqual(((await denied.json()) as { "violated-policies": string[] })["violated-policies"], ["minute"]);
  const broken = await ask("/broken");
  assert.deepEqual([broken.status, broken.headers.get("ratelimit")], [500, '"day";r=7;t=86400']);
  assert.equal((await ask("/several", { "x-api-key": "{ann}" })).status, 200);
  assert.equal((await ask("/several")).headers.get("ratelimit"), null, "without a key there is no limit");
  assert.equal((await ask("/costly/5")).status, 200);
  assert.equal((await ask("/costly/1")).status, 429);
  assert.equal((await ask("/costly/6")).status, 500);
  await place.server.frozen(async () => {
    const away = await ask("/shy");
    assert.equal(away.status, 503);
    assert.match(await away.text(), /temporary-reduced-capacity/);
  });
  assert.equal((await app.request("/one")).status, 500, "without a socket the key must be said");
});

withEach("clients behind a Unix socket share a limit, unless a proxy says who they are", async (place) => {
  const folder = mkdtempSync(join(tmpdir(), "zeitset-"));
  place.test.after(() => rmSync(folder, { recursive: true }));
  const limiter = new Limiter(place.redis, "minute", "2/1m");
  const key = clientNetwork({ proxies: 1 });
  const plain = express().get("/", expressLimit(limiter), (_, response) => void response.send("ok"));
  plain.get("/proxied", expressLimit(limiter, { key }), (_, response) => void response.send("ok"));
  const listener = plain.listen(join(folder, "express"));
  place.test.after(() => void listener.close());
  const app = fastify();
  app.get("/", { onRequest: fastifyLimit(new Limiter(place.redis, "fastify", "2/1m")) }, () => "ok");
  await app.listen({ path: join(folder, "fastify") });
  place.test.after(() => app.close());
  const ask = (name: string, path = "/", from = "6.6.6.6"): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const headers = { "x-forwarded-for": `${Math.random()}, ${from}` };
      httpRequest({ socketPath: join(folder, name), path, headers, agent: false }, (response) => resolve(response.resume().statusCode)).on("error", reject).end();
    });
  for (const name of ["express", "fastify"]) assert.deepEqual([await ask(name), await ask(name), await ask(name)], [200, 200, 429], name);
  const proxied = [];
  for (const from of ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"]) proxied.push(await ask("express", "/proxied", from));
  assert.deepEqual(proxied, [200, 200, 429, 200]);
});
