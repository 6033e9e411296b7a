/** Errors of this library, and which errors pass by themselves. */

/** More units than the limit has: such a call can never succeed. Nothing was sent. */
export class CostTooHigh extends RangeError {
  override readonly name = "CostTooHigh";
  constructor(
    readonly cost: number,
    readonly limit: number,
  ) {
    super(`a cost of ${cost} can never fit into a limit of ${limit}`);
  }
}

/** A payload that is not what the codec says. */
export class PayloadError extends Error {
  override readonly name = "PayloadError";
}

/** Redis did not answer in time, or there was no connection for that long; or a job ran for longer than its `timeout`. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** A reply that the server never gives to this command: something else is at the other end, or replies have shifted. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** Why a handler is cancelled: its lease is lost, and the job may be another worker's by now. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** Why a handler is cancelled: the worker stops, and gives the job back. */
export class Stopped extends Error {
  override readonly name = "Stopped";
}

/** Codes that pass on a good connection: memory or disk is full, replicas are missing, a script runs. */
const REFUSALS = new Set(["OOM", "MISCONF", "NOREPLICAS", "BUSY"]);

/** Codes that pass by themselves, perhaps on another server: a restart, a failover, a slot that moves. */
const PASSING = new Set("LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK".split(" "));

/** The code that a server's error begins with; undefined for an error of the client or the connection. */
export function codeOf(error: Error): string | undefined {
  // Errors of sockets have a `code`, such as ECONNREFUSED, which would pass for one of a server's.
  if ("code" in error && typeof error.code === "string") return undefined;
  return /^([A-Z][A-Z0-9]+)(?: |$)/.exec(error.message)?.[1];
}

/** Whether the server is the right one and refuses the command for now. */
export const isRefusal = (error: Error): boolean => REFUSALS.has(codeOf(error) ?? "");

/** Texts of `ERR` that no wait mends. Any other is a proxy's, or says that the server has too many clients. */
const LASTING = /^ERR (unknown (sub)?command|wrong number of arguments|syntax error|DB index|invalid)/i;

/** Whether the same command may work a moment later: the connection is gone, or the server cannot serve it now. */
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

/** What is kept with a job: the type of the error and its text. */
export function describe(error: Error): string {
  try {
    return `${String(error.name)}: ${String(error.message)}`;
  } catch {
    return "Error: its text cannot be read";
  }
}
