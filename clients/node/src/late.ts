/** A time limit for a promise. */

import { TimeoutError } from "./errors.js";

/**
 * Rejects with a {@link TimeoutError} if the promise takes longer than `ms`. If the process stood still, it reads
 * replies that have arrived before it decides that the time is up. During the wait, `pending` has a function that ends
 * the wait with an error.
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
