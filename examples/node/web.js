// A web service that limits each client: node web.js [redis://localhost:6379] [port]
//
// The header X-Api-Key identifies a client. Without this header, its address does. The environment variables LIMIT and
// WINDOW (seconds) set the limit.

import { createServer } from "node:http";
import { createClient } from "redis";
import { Limiter } from "zeitset";

const { LIMIT = 10, WINDOW = 60 } = process.env;
const redis = await createClient({ url: process.argv[2] }).on("error", console.error).connect();
const limiter = new Limiter(redis, "default", `${LIMIT}/${WINDOW}s`);

const server = createServer(async (request, response) => {
  const client = request.headers["x-api-key"] ?? request.socket.remoteAddress;
  const check = await limiter.check(client);
  const [status, type, answer] = check.allowed
    ? [200, "application/json", { hello: client, charged_until_ms: check.chargedUntilMs }]
    : [429, "application/problem+json", { title: "Too many requests", status: 429 }];
  response.writeHead(status, { ...check.headers(), "Content-Type": type });
  response.end(JSON.stringify(answer) + "\n");
});
server.listen(process.argv[3] ?? 8000, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
