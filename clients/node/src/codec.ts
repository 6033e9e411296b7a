/** The codecs of payloads: JSON, or unchanged bytes. */

import { asError, PayloadError } from "./errors.js";
import { type Duration, inMs, milliseconds } from "./values.js";

/**
 * Encodes and decodes payloads. `"json"` and `"bytes"` are the names of two codecs. Your own codec is an object with
 * both functions.
 */
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
  decode: (raw) => JSON.parse(UTF8.decode(raw.subarray(linesOf(raw).length))),
};

/** The header of a job, which is stored before its payload. */
export interface Header {
  readonly traceparent?: string | undefined;
  readonly timeoutMs?: number | undefined;
}

/** A header: lines of a name and a value. No JSON text begins like this. */
const HEADER = /^(?:[a-z][a-z-]*: [^\n]*\n)+/;
/** The syntax of a traceparent (W3C Trace Context). */
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Returns the payload `body`. If there is a traceparent or a timeout, a header precedes the payload. */
export function headed<T>(codec: Codec<T>, body: Buffer | string, traceparent?: string, timeout?: Duration): Buffer | string {
  let lines = "";
  if (traceparent !== undefined) {
    if (!TRACEPARENT.test(traceparent)) throw new RangeError(`not a traceparent: ${traceparent}`);
    lines += `traceparent: ${traceparent}\n`;
  }
  if (timeout !== undefined) {
    const ms = milliseconds(timeout);
    if (ms < 1) throw new RangeError("timeout must be at least 1 ms");
    lines += `timeout: ${inMs(ms)}\n`;
  }
  if (lines === "") return body;
  if ((codec as unknown) !== JSON_CODEC) throw new TypeError("a traceparent and a timeout travel with JSON payloads only");
  return lines + body.toString();
}

/** Reads `traceparent` and `timeout` from the header of a job. Throws a RangeError if the timeout is not a duration. */
export function headerOf<T>(codec: Codec<T>, raw: Buffer): Header {
  const lines = (codec as unknown) === JSON_CODEC ? linesOf(raw) : "";
  if (lines === "") return {};
  const found = new Map(Array.from(lines.matchAll(/([a-z-]+): ([^\n]*)\n/g), ([, name, value]) => [name, value]));
  const [traceparent, timeout] = [found.get("traceparent"), found.get("timeout")];
  return {
    traceparent: traceparent !== undefined && TRACEPARENT.test(traceparent) ? traceparent : undefined,
    timeoutMs: timeout === undefined ? undefined : milliseconds(timeout),
  };
}

/** Returns the header as Latin-1 text; an empty string if there is none. */
const linesOf = (raw: Buffer): string => (/[a-z]/.test(raw.toString("latin1", 0, 1)) ? (HEADER.exec(raw.toString("latin1"))?.[0] ?? "") : "");

/** Refuses NaN and infinity, which JSON.stringify would write as null. */
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

/** Decodes a payload. Throws a PayloadError if that fails. */
export function decode<T>(codec: Codec<T>, raw: Buffer): T {
  try {
    return codec.decode(raw);
  } catch (thrown) {
    throw new PayloadError(`the payload cannot be read: ${asError(thrown).message}`, { cause: thrown });
  }
}

/** Stands for a payload that the codec cannot read, for example in the result of `peek`. */
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
