// Measures the decisions per second of a limit, with and without units ahead:
// node ahead-node.mjs PORT SECONDS PROCESSES AHEAD (0: none).

import { fork } from "node:child_process";
import { once } from "node:events";
import { createClient } from "redis";
import { Limiter } from "zeitset";

const [port, seconds, processes, ahead] = process.argv.slice(2).map(Number);
const redis = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();

if (process.send) {
  const limiter = new Limiter(redis, "bench", "100000000/1s", { timeout: "20s", ...(ahead && { ahead }) }); // all calls are allowed
  await limiter.check("warm");
  process.send("ready");
  await once(process, "message");
  let decided = 0;
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    for (let n = 0; n < 100; n++) await limiter.check("hot");
    decided += 100;
  }
  process.send(decided);
  await limiter.close();
  redis.destroy();
  process.disconnect();
} else {
  await redis.flushAll();
  const children = Array.from({ length: processes }, () => fork(process.argv[1], process.argv.slice(2)));
  await Promise.all(children.map((child) => once(child, "message")));
  await redis.configResetStat();
  const before = cpu(await redis.info("cpu"));
  const found = children.map((child) => once(child, "message"));
  for (const child of children) child.send("go");
  const decided = (await Promise.all(found)).reduce((sum, [count]) => sum + count, 0);
  const used = cpu(await redis.info("cpu")) - before;
  const stats = (await redis.info("commandstats")).matchAll(/cmdstat_zrl\.(?:check|refund):calls=(\d+)/gi);
  const commands = [...stats].reduce((sum, [, calls]) => sum + Number(calls), 0);
  const figures = [decided / seconds, commands / seconds].map((value) => value.toFixed(0));
  console.log(`Node.js ${processes} ${ahead} ${figures.join(" ")} ${((used / seconds) * 100).toFixed(1)}`);
  redis.destroy();
}

function cpu(info) {
  return ["used_cpu_user", "used_cpu_sys"].reduce((sum, name) => sum + Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)[1]), 0);
}
