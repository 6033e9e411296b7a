import { TimeoutError } from "./errors.js";

/**
 * Rejects with a {@link TimeoutError} if the promise takes longer than `ms`. If the process was suspended, the reply
 * may have arrived in time. So before this function rejects, it lets the process read the replies that have arrived.
 * During the wait, `pending` contains a function. Calling it with an error rejects the promise with this error.
 */
export async function late<T>(promise: Promise<T>, ms: number, pending = new Set<(error: Error) => void>()): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let abandon: (error: Error) => void = () => undefined;
  const end = new Promise<never>((_, reject) => {
    abandon = reject;
    timer = setTimeout(() => setImmediate(() => reject(new TimeoutError(`no reply within ${Math.round(ms)} ms`))), ms);
  });
  pending.add(abandon);
  try {
    return await Promise.race([promise, end]);
  } finally {
    clearTimeout(timer);
    pending.delete(abandon);
  }
}
