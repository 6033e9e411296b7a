/**
 * Takes units from limits as fast as it can: node taker.js <library> <url> <rate> <ahead> <file> <key> ... For each
 * unit, writes the moments before and after the call to the file. All processes of the machine have the same clock.
 */

import { openSync, writeSync } from "node:fs";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Limiter } from "zeitset";

/** Bytes of a record: the number of the key, then the two moments in nanoseconds. */
export const RECORD = 24;

if (process.send) {
  const [library, url = "", rate = "", ahead = "", file = "", ...keys] = process.argv.slice(2);
  const redis = library === "ioredis" ? new Redis(url) : await createClient({ url }).connect();
  // With a lower precision, units that become available again late would hide units that were handed out late.
  const limiter = new Limiter(redis, "hot", rate, { ahead: Number(ahead), precision: "exact" });
  const records = openSync(file, "a");
  let isStopping = false;
  process.on("message", () => (isStopping = true));

  const takes = async (at: number): Promise<void> => {
    const record = Buffer.alloc(RECORD);
    record.writeBigUInt64LE(BigInt(at), 0);
    for (let n = 0; !isStopping; n++) {
      record.writeBigUInt64LE(process.hrtime.bigint(), 8);
      const { allowed } = await limiter.check(keys[at] ?? "");
      record.writeBigUInt64LE(process.hrtime.bigint(), 16);
      // The record remains even if the process is killed.
      if (allowed) writeSync(records, record);
      // Lets other callers take units, and lets some held units remain unused.
      if (!allowed || n % 50 === 0) await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    }
  };
  await Promise.all(keys.flatMap((_, at) => [takes(at), takes(at), takes(at)]));
  await limiter.close();
  process.exit();
}
