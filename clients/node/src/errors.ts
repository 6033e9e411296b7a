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

/** Redis did not answer in time, or there was no connection for that long. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** Why a handler is cancelled: its lease is lost, and the job may be another worker's by now. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** Why a handler is cancelled: the worker stops, and gives the job back. */
export class Stopped extends Error {
  override readonly name = "Stopped";
}

/** Codes of errors that pass without anybody's doing: a restart, a failover, a slot that moves, a full disk or memory. */
const PASSING = new Set(
  "LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK NOREPLICAS MISCONF BUSY OOM".split(" "),
);

/** The code that a server's error begins with; undefined for an error of the client or the connection. */
export function codeOf(error: Error): string | undefined {
  // Errors of sockets have a `code`, such as ECONNREFUSED, which would pass for one of a server's.
  if ("code" in error && typeof error.code === "string") return undefined;
  return /^([A-Z][A-Z0-9]+)(?: |$)/.exec(error.message)?.[1];
}

/** Whether the same command may work a moment later: the connection is gone, or the server is not yet, or no longer, the one to ask. */
export function passes(error: Error): boolean {
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return false;
  const code = codeOf(error);
  return code === undefined || PASSING.has(code);
}

export const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/** What is kept with a job: the type of the error and its text. */
export const describe = (error: Error): string => `${error.name}: ${error.message}`;
