/** Errors of this library, and which errors are temporary. */

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

/** Codes of temporary errors after a restart, a failover or the move of a slot. Another server may have the key now. */
const PASSING = new Set("LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK".split(" "));

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
const LASTING = /^ERR (unknown |wrong number |syntax error|invalid|value |time is |the |DB index|numkeys|a key |PRECISION )/i;

/** Whether the error is temporary. For example, the connection was lost, or the server is loading its data. */
export function passes(error: Error): boolean {
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return false;
  const code = codeOf(error);
  return code === undefined || PASSING.has(code) || isRefusal(error) || (code === "ERR" && !LASTING.test(error.message));
}

export function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  try {
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
