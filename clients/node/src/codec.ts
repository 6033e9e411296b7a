/** Payloads: JSON, or bytes as they are. */

import { asError, PayloadError } from "./errors.js";

/** How payloads are written and read. Another one than these two is an object with both functions. */
export interface Codec<T> {
  encode(payload: T): Buffer | string;
  decode(raw: Buffer): T;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

const JSON_CODEC: Codec<unknown> = {
  encode(payload) {
    const text = JSON.stringify(payload, finite) as string | undefined;
    if (text === undefined) throw new TypeError(`not a JSON value: ${typeof payload}`);
    return text;
  },
  decode: (raw) => JSON.parse(UTF8.decode(traceparentOf(JSON_CODEC, raw) ? raw.subarray(TRACE_BYTES + 1) : raw)),
};

/** A `traceparent` of W3C Trace Context, which stands in a line before the JSON. No JSON begins like that. */
const TRACE = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const TRACE_BYTES = 55;

/** A payload with the `traceparent` of whoever pushes it. */
export function traced<T>(codec: Codec<T>, body: Buffer | string, traceparent: string): string {
  if ((codec as unknown) !== JSON_CODEC) throw new TypeError("a traceparent travels with JSON payloads only");
  if (!TRACE.test(traceparent)) throw new RangeError(`not a traceparent: ${traceparent}`);
  return `${traceparent}\n${body.toString()}`;
}

export function traceparentOf<T>(codec: Codec<T>, raw: Buffer): string | undefined {
  if ((codec as unknown) !== JSON_CODEC || raw[TRACE_BYTES] !== "\n".charCodeAt(0)) return undefined;
  const line = raw.toString("latin1", 0, TRACE_BYTES);
  return TRACE.test(line) ? line : undefined;
}

/** JSON.stringify would make null of NaN. */
function finite(_: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError(`JSON has no ${value}`);
  return value;
}

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

/** A payload that cannot be read, among others that can. */
export class Undecodable {
  constructor(
    readonly raw: Buffer,
    readonly error: PayloadError,
  ) {}
}

export function decodeOrNot<T>(codec: Codec<T>, raw: Buffer): T | Undecodable {
  try {
    return decode(codec, raw);
  } catch (thrown) {
    return new Undecodable(raw, thrown as PayloadError);
  }
}
