let aheadMs = -Infinity;

/**
 * Returns milliseconds since a fixed moment, never fewer than before. While the machine sleeps, the monotonic clock
 * stops, but the server's clock goes on. So this clock follows the wall clock if the wall clock is further.
 */
export function now(): number {
  const ms = performance.now();
  aheadMs = Math.max(aheadMs, Date.now() - ms);
  return ms + aheadMs;
}
