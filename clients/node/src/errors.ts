/**
 * Errors of this library, and which errors are temporary. The boundary to Redis (boundary.ts) turns whatever a client
 * library throws into one of them.
 */

/** The cost is above the limit, so the call can never succeed. No command was sent. */
export class CostTooHigh extends RangeError {
  override readonly name = "CostTooHigh";
  constructor(
    readonly cost: number,
    readonly limit: number,
  ) {
    super(`a cost of ${cost} can never fit into a limit of ${limit}`);
  }
}

/** The codec cannot read a payload. */
export class PayloadError extends Error {
  override readonly name = "PayloadError";
}

/** Something takes too long: the connection to Redis, a reply, a job, or the `wait` of a limiter. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** A command got an unexpected reply. The peer is not Redis, or the reply belongs to another command. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/**
 * The reply to a command got lost, so the server may have carried out the command. The library sends a command that
 * changes something only once. `cause` is the error of the connection.
 */
export class OutcomeUnknown extends Error {
  override readonly name = "OutcomeUnknown";
}

/** The reason why a handler is cancelled: the lease is lost, and another worker may have the job. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** The reason why a handler is cancelled: the worker stops, and returns the job to the queue. */
export class Stopped extends Error {
  override readonly name = "Stopped";
}

/**
 * Codes of temporary errors, after which the same connection works: memory or disk is full, replicas are missing, or a
 * script runs.
 */
const REFUSALS = new Set(["OOM", "MISCONF", "NOREPLICAS", "BUSY"]);

/** Codes of permanent errors. All other codes count as temporary. */
const PERMANENT = new Set(
  "WRONGTYPE NOTEXPIRING NOTLIMIT NOBOARD BUSYKEY QUEUEFULL NOPERM NOAUTH WRONGPASS NOPROTO CROSSSLOT EXECABORT".split(" "),
);

/** Returns the code at the beginning of a server's error; undefined for an error of the client or the connection. */
export function codeOf(error: Error): string | undefined {
  // Errors of sockets have a `code`, for example ECONNREFUSED, which looks like the code of a server's error.
  if ("code" in error && typeof error.code === "string") return undefined;
  return /^([A-Z][A-Z0-9]+)(?: |$)/.exec(error.message)?.[1];
}

/** Whether the server refuses the command for now, although it is the right server for the key. */
export const isRefusal = (error: Error): boolean => REFUSALS.has(codeOf(error) ?? "");

/**
 * Matches permanent `ERR` errors. All other `ERR` errors count as temporary, for example
 * `ERR max number of clients reached`.
 */
const LASTING =
  /^ERR (unknown |wrong number |syntax error|invalid|value |time is |the |DB index|numkeys|a key |PRECISION |Number of keys |worker name |job ID |AGAIN requires )/i;

const MISTAKES = [TypeError, RangeError, SyntaxError, ReferenceError, URIError, EvalError];

/**
 * Whether the error is temporary: the connection was lost, or the server cannot carry out the command for now. An error
 * of the boundary is temporary unless it is one of the permanent error replies. Other errors are mistakes of the caller.
 */
export function passes(error: Error): boolean {
  if (MISTAKES.some((mistake) => error instanceof mistake)) return false;
  const code = codeOf(error);
  if (code === "ERR") return !LASTING.test(error.message);
  return code === undefined || !PERMANENT.has(code);
}

/**
 * Returns the error for whatever was thrown within the boundary. Errors that look like a mistake, or that are hard to
 * handle, become a {@link ProtocolError}.
 */
export function lost(thrown: unknown): Error {
  try {
    if (thrown instanceof Error && typeof thrown.message === "string" && (codeOf(thrown) !== undefined || passes(thrown))) return thrown;
  } catch {
    // A property of the error throws.
  }
  return new ProtocolError(`not a reply of Redis: ${describe(asError(thrown))}`, { cause: thrown });
}

export function asError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown;
    return new Error(String(thrown));
  } catch {
    return new Error("something that has no text was thrown");
  }
}

/** Returns the type and the text of an error, to be kept with a job. */
export function describe(error: Error): string {
  try {
    return `${String(error.name)}: ${String(error.message)}`;
  } catch {
    return "Error: its text cannot be read";
  }
}
