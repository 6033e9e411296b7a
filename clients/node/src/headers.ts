/** Header fields for HTTP: Retry-After, and the fields of draft-ietf-httpapi-ratelimit-headers-11. */

/**
 * A limit in the header fields of a response. If Redis was away, `remaining` is undefined, and the fields show only the
 * policy.
 */
export interface LimitState {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly unit?: string | undefined;
  readonly remaining?: number | undefined;
  /** If `isDenied`, the time until the same call can succeed; otherwise, the time until all units are free. */
  readonly waitMs?: number | undefined;
  /** Whether the limit denies the call now, but can allow it later. */
  readonly isDenied?: boolean;
  /** Whether the limit never allows the call. */
  readonly isHopeless?: boolean;
}

export function headers(limits: readonly LimitState[]): Record<string, string> {
  const policies = limits.map(({ name, limit, windowMs, unit }) => {
    const quotaUnit = unit === undefined ? "" : `;qu=${quoted(unit)}`;
    return `${quoted(name)};q=${whole(limit)};w=${seconds(windowMs)}${quotaUnit}`;
  });
  const fields: Record<string, string> = { "RateLimit-Policy": policies.join(", ") };
  const known = limits.filter(({ remaining }) => remaining !== undefined);
  if (known.length > 0) {
    fields["RateLimit"] = known.map((limit) => `${quoted(limit.name)};r=${free(limit)};t=${effectiveWindow(limit)}`).join(", ");
  }
  const waits = known.filter(({ isDenied }) => isDenied).map(effectiveWindow);
  // A call that one limit never allows has no wait.
  if (waits.length > 0 && !known.some(({ isHopeless }) => isHopeless)) fields["Retry-After"] = `${Math.max(...waits)}`;
  return fields;
}

const free = ({ remaining = 0 }: LimitState): number => whole(remaining);

/** Returns the longer of two times, in seconds: `waitMs`, and `windowMs` × `remaining` / `limit`. */
function effectiveWindow(state: LimitState): number {
  const { windowMs, limit, waitMs = 0 } = state;
  return Math.max(seconds(waitMs), whole(Math.ceil((seconds(windowMs) * free(state)) / limit)));
}

/** Returns whole seconds, rounded up, so that a client waits long enough. */
const seconds = (ms: number): number => whole(Math.ceil(ms / 1000));

/** Limits an integer to the 15 digits of structured fields (RFC 9651). */
const whole = (value: number): number => Math.min(value, 999_999_999_999_999);

const quoted = (name: string): string => `"${name.replace(/["\\]/g, "\\$&")}"`;
