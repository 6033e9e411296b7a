/** Payloads: JSON, or bytes as they are. */

import { asError, PayloadError } from "./errors.js";

/** How payloads are written and read. Another one than these two is an object with both functions. */
export interface Codec<T> {
  encode(payload: T): Buffer | string;
  decode(raw: Buffer): T;
}

const JSON_CODEC: Codec<unknown> = {
  encode(payload) {
    const text = JSON.stringify(payload) as string | undefined;
    if (text === undefined) throw new TypeError(`not a JSON value: ${typeof payload}`);
    return text;
  },
  decode: (raw) => JSON.parse(raw.toString()),
};

const BYTES_CODEC: Codec<unknown> = {
  encode(payload) {
    if (payload instanceof Uint8Array) return Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    throw new TypeError(`the codec is "bytes", and the payload is of type ${typeof payload}`);
  },
  decode: (raw) => raw,
};

export type CodecName = "json" | "bytes";

export function codecOf<T>(codec: CodecName | Codec<T> = "json"): Codec<T> {
  if (typeof codec === "object") return codec;
  return (codec === "json" ? JSON_CODEC : BYTES_CODEC) as Codec<T>;
}

/** @throws PayloadError */
export function decode<T>(codec: Codec<T>, raw: Buffer): T {
  try {
    return codec.decode(raw);
  } catch (thrown) {
    throw new PayloadError(`the payload cannot be read: ${asError(thrown).message}`, { cause: thrown });
  }
}
