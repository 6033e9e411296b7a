/**
 * Runs the tests of @fastify/rate-limit for its store on Redis with the store of this library. The packages
 * rate-limit-redis and @nestjs/throttler contain no tests.
 */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Server } from "./support/server.js";

/** The tests that fail, and why. */
const OTHERS: ReadonlyMap<string, string> = new Map([
  ["Throw on redis error", "expects the text of an error of ioredis"],
  ["Redis with continueExceeding should not always return the timeWindow as ttl", "expects that the window begins with the first request"],
]);

const root = fileURLToPath(new URL("../..", import.meta.url));

test("the tests of @fastify/rate-limit pass with this store", { timeout: 120_000 }, async (t) => {
  const server = await Server.start(t);
  const plugin = dirname(createRequire(import.meta.url).resolve("@fastify/rate-limit"));
  const code = readFileSync(join(plugin, "test/redis-rate-limit.test.js"), "utf8")
    .replace("require('../index')", `require(${JSON.stringify(plugin)}); const { fastifyStore } = require("zeitset")`)
    .replaceAll(/host: REDIS_HOST/g, `host: "127.0.0.1", port: ${server.port}`)
    .replaceAll(/^(\s+)redis(,?)$/gm, "$1store: fastifyStore(redis, 'test')$2")
    .replaceAll(/\bredis: redis\b|\bredis(?= *}\))/g, "store: fastifyStore(redis, 'test')");
  const folder = join(root, "build/peers");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "fastify.test.cjs");
  writeFileSync(file, code);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  // A failed test leaves its connections open, so the process would not end by itself.
  const args = ["--test-reporter=tap", "--test-force-exit", file];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", env, timeout: 60_000, killSignal: "SIGKILL" });
  const results = [...stdout.matchAll(/^ {4}(not )?ok \d+ - (.*)$/gm)].map(([, not, name = ""]) => ({ name, isGood: !not }));
  assert.ok(results.length >= 16, stdout + stderr);
  assert.deepEqual(results.filter(({ name, isGood }) => !isGood && !OTHERS.has(name)), [], stdout);
});
