let aheadMs = -Infinity;

/**
 * Returns milliseconds since a fixed moment, never fewer than before. While the machine sleeps, the monotonic clock
 * stops, but the server's clock goes on. So if the wall clock is ahead of this clock, this clock follows it.
 */
export function now(): number {
  const ms = performance.now();
  aheadMs = Math.max(aheadMs, Date.now() - ms);
  return ms + aheadMs;
}
