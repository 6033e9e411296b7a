/** Header fields for HTTP: Retry-After, and those of draft-ietf-httpapi-ratelimit-headers. Pure. */

/** One limit as a response tells of it. Without numbers (Redis was away) only its policy is told. */
export interface Told {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly remaining?: number | undefined;
  /** Until it is worth trying again, or until the limit is free. */
  readonly waitMs?: number | undefined;
}

/** `retryAfterMs`: above 0 if the request is refused and may be repeated then. */
export function headers(limits: readonly Told[], retryAfterMs: number): Record<string, string> {
  const fields: Record<string, string> = {
    "RateLimit-Policy": limits.map(({ name, limit, windowMs }) => `${quoted(name)};q=${limit};w=${seconds(windowMs)}`).join(", "),
  };
  const known = limits.filter(({ remaining }) => remaining !== undefined);
  if (known.length > 0) {
    fields["RateLimit"] = known
      .map(({ name, remaining = 0, waitMs = 0 }) => `${quoted(name)};r=${Math.max(remaining, 0)};t=${seconds(waitMs)}`)
      .join(", ");
  }
  if (retryAfterMs > 0) fields["Retry-After"] = `${seconds(retryAfterMs)}`;
  return fields;
}

/** Whole seconds, rounded up: whoever waits them has waited long enough. */
const seconds = (ms: number): number => Math.ceil(ms / 1000);

/** A string of structured fields (RFC 9651). */
const quoted = (name: string): string => `"${name.replace(/["\\]/g, "\\$&")}"`;
