let aheadMs = -Infinity;

/**
 * Returns milliseconds since a fixed moment, never fewer than before. While the machine sleeps, the monotonic clock
 * stops, but the server's clock goes on. So if the wall clock gets ahead of this clock, this function adds the
 * difference.
 */
export function now(): number {
  const ms = performance.now();
  aheadMs = Math.max(aheadMs, Date.now() - ms);
  return ms + aheadMs;
}
