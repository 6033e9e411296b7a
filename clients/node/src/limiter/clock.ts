/** Time since a fixed moment. */

let aheadMs = -Infinity;

/**
 * Milliseconds from a fixed moment, never fewer than before. The monotonic clock stands still while the machine sleeps, and the
 * server's goes on: so this clock follows the wall clock where that one is further.
 */
export function now(): number {
  const ms = performance.now();
  aheadMs = Math.max(aheadMs, Date.now() - ms);
  return ms + aheadMs;
}
