let aheadMs = -Infinity;

/**
 * Returns milliseconds since a fixed moment. The result never decreases. While the machine sleeps, the monotonic clock
 * stops, but the server's clock goes on. So this function adds the largest difference so far between the wall clock and
 * the monotonic clock.
 */
export function now(): number {
  const ms = performance.now();
  aheadMs = Math.max(aheadMs, Date.now() - ms);
  return ms + aheadMs;
}
