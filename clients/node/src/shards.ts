/** The shard of a job, and the slot of a key. */

const MOST = 1024;
const SLOTS = 16_384;

/** The table of CRC-16 (XMODEM), indexed by the byte that is shifted out. */
const CRC = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

function crc16(bytes: Buffer): number {
  let crc = 0;
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ (CRC[(crc >> 8) ^ byte] ?? 0);
  return crc;
}

/** Returns the slot of a key. If the key has a hash tag, only the tag counts. */
export function slotOf(key: string): number {
  return crc16(Buffer.from(/^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key)) % SLOTS;
}

/** Returns the number of a job's shard. `name` is the job's group, or its id if it has no group. */
export const shardOf = (name: string, shards: number): number => crc16(Buffer.from(name)) % shards;

export function keysOf(name: string, shards: number | undefined): string[] {
  if (shards === undefined) return [name];
  if (!Number.isSafeInteger(shards) || shards < 1 || shards > MOST) {
    throw new RangeError(`shards must be a whole number from 1 to ${MOST}, not ${shards}`);
  }
  if (/[{}]/.test(name)) throw new RangeError(`the name of a queue with shards must not contain braces: ${name}`);
  return Array.from({ length: shards }, (_, at) => `{${name}:${at}}`);
}
