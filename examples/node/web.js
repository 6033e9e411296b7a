// A web service that serves each client so often and no oftener: node web.js [redis://localhost:6379] [port]
//
// The client is who its X-Api-Key says, or else its address. LIMIT and WINDOW (seconds) may be set in the environment.

import { createServer } from "node:http";
import { createClient } from "redis";
import { check } from "./zeitset.js";

const { LIMIT = 10, WINDOW = 60 } = process.env;
const redis = await createClient({ url: process.argv[2] }).connect();

const server = createServer(async (request, response) => {
  const client = request.headers["x-api-key"] ?? request.socket.remoteAddress;
  const limit = await check(redis, `web:${client}`, LIMIT, `${WINDOW}s`);
  const [status, type, answer] = limit.allowed
    ? [200, "application/json", { hello: client, charged_until_ms: limit.chargedUntilMs }]
    : [429, "application/problem+json", { title: "Too many requests", status: 429 }];
  response.writeHead(status, { ...limit.headers("default", WINDOW), "Content-Type": type });
  response.end(JSON.stringify(answer) + "\n");
});
server.listen(process.argv[3] ?? 8000, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
