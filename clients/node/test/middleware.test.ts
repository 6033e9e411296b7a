import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import express from "express";
import { fastify } from "fastify";
import { expressLimit, fastifyLimit, Limiter } from "zeitset";
import { type Place, withEach } from "./support/clients.js";
import type { Test } from "./support/server.js";

type Ask = (path: string, headers?: Record<string, string>) => Promise<Response>;

interface Service {
  readonly minute: Limiter;
  readonly day: Limiter;
  readonly costly: Limiter;
  readonly shy: Limiter;
}

const service = ({ redis }: Place): Service => ({
  minute: new Limiter(redis, "minute", "2/1m"),
  day: new Limiter(redis, "day", "10/1d"),
  costly: new Limiter(redis, "costly", "5/1m"),
  shy: new Limiter(redis, "minute", "2/1m", { onError: "deny", timeout: 300 }),
});

async function withExpress(t: Test, { minute, day, costly, shy }: Service): Promise<Ask> {
  const app = express();
  const name = (request: express.Request): string | null => request.get("x-api-key") ?? null;
  const hello = (_: express.Request, response: express.Response): void => void response.send("hello");
  app.get("/one", expressLimit(minute), hello);
  app.get("/several", expressLimit<express.Request>([minute, day], { key: name }), hello);
  app.get("/costly/:n", expressLimit<express.Request>(costly, { cost: (request) => Number(request.params["n"]) }), hello);
  app.get("/shy", expressLimit(shy), hello);
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  t.after(() => void listener.close());
  const { port } = listener.address() as AddressInfo;
  return (path, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
}

async function withFastify(t: Test, { minute, day, costly, shy }: Service): Promise<Ask> {
  const app = fastify();
  type Request = { ip: string; headers: Record<string, string | string[] | undefined>; params: unknown };
  const name = (request: Request): string | null => (request.headers["x-api-key"] as string | undefined) ?? null;
  const hello = async (): Promise<string> => "hello";
  app.get("/one", { onRequest: fastifyLimit(minute) }, hello);
  app.get("/several", { onRequest: fastifyLimit<Request>([minute, day], { key: name }) }, hello);
  const cost = (request: Request): number => Number((request.params as { n: string }).n);
  app.get("/costly/:n", { onRequest: fastifyLimit<Request>(costly, { cost }) }, hello);
  app.get("/shy", { onRequest: fastifyLimit(shy) }, hello);
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  t.after(() => void app.close());
  return (path, headers = {}) => fetch(`${url}${path}`, { headers });
}

for (const [framework, start] of [["Express", withExpress], ["Fastify", withFastify]] as const) {
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
    assert.deepEqual(await denied.json(), { status: 429, title: "Too many requests" });
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
    assert.equal((await ask("/one")).status, 500);
  });
}
