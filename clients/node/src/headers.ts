/** Header fields for HTTP: Retry-After, and those of draft-ietf-httpapi-ratelimit-headers-11. Pure. */

/** One limit as a response tells of it. Without numbers (Redis was away) only its policy is told. */
export interface Told {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly unit?: string | undefined;
  readonly remaining?: number | undefined;
  /** Until it is worth trying again, or until the limit is free. */
  readonly waitMs?: number | undefined;
  /** The limit denies, and a wait mends that. */
  readonly isDenied?: boolean;
}

export function headers(limits: readonly Told[]): Record<string, string> {
  const policies = limits.map(({ name, limit, windowMs, unit }) => {
    const quotaUnit = unit === undefined ? "" : `;qu=${quoted(unit)}`;
    return `${quoted(name)};q=${whole(limit)};w=${seconds(windowMs)}${quotaUnit}`;
  });
  const fields: Record<string, string> = { "RateLimit-Policy": policies.join(", ") };
  const known = limits.filter(({ remaining }) => remaining !== undefined);
  if (known.length > 0) {
    fields["RateLimit"] = known.map((told) => `${quoted(told.name)};r=${free(told)};t=${effectiveWindow(told)}`).join(", ");
  }
  const waits = known.filter(({ isDenied }) => isDenied).map(effectiveWindow);
  if (waits.length > 0) fields["Retry-After"] = `${Math.max(...waits)}`;
  return fields;
}

const free = ({ remaining = 0 }: Told): number => whole(remaining);

/** Over this time the rest is used at no higher a rate than the policy's. */
function effectiveWindow(told: Told): number {
  const { windowMs, limit, waitMs = 0 } = told;
  return Math.max(seconds(waitMs), seconds((windowMs * free(told)) / limit));
}

/** Whole seconds, rounded up: whoever waits them has waited long enough. */
const seconds = (ms: number): number => whole(Math.ceil(ms / 1000));

/** Integers of structured fields (RFC 9651) have at most 15 digits. */
const whole = (value: number): number => Math.min(value, 999_999_999_999_999);

/** A string of structured fields. */
const quoted = (name: string): string => `"${name.replace(/["\\]/g, "\\$&")}"`;
