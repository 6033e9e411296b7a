// What Zeitset answers, as JavaScript objects. Copy this file into your project, and grow it as you need.

/** The six numbers of ZRL.CHECK; times in milliseconds. */
export class Limit {
  constructor([allowed, limit, remaining, retryAfterMs, resetAfterMs, chargedUntilMs]) {
    this.allowed = allowed === 1;
    this.limit = limit;
    this.remaining = remaining;
    this.retryAfterMs = retryAfterMs; // wait this long and the same call succeeds; 0: allowed, -1: it never will
    this.resetAfterMs = resetAfterMs; // until all units are free
    this.chargedUntilMs = chargedUntilMs; // Unix time at which the units come back: what ZRL.REFUND asks for
  }

  /** HTTP header fields: Retry-After, and those of draft-ietf-httpapi-ratelimit-headers. Window in seconds. */
  headers(policy, window) {
    const wait = this.retryAfterMs > 0;
    const t = seconds(wait ? this.retryAfterMs : this.resetAfterMs);
    return {
      "RateLimit-Policy": `"${policy}";q=${this.limit};w=${window}`,
      RateLimit: `"${policy}";r=${this.remaining};t=${t}`,
      ...(wait && { "Retry-After": `${t}` }),
    };
  }
}

/** Whole seconds, rounded up: who waits them has waited long enough. */
const seconds = (ms) => Math.ceil(ms / 1000);

/** Sends a command; arguments may be numbers. */
export const run = (redis, ...words) => redis.sendCommand(words.map(String));

/** Takes units from a limit, if they fit: `await check(redis, "search:ann", 5, "1m")`. */
export const check = async (redis, key, limit, window, cost = 1) =>
  new Limit(await run(redis, "ZRL.CHECK", key, limit, window, "COST", cost));

/** The next job that is due, or null; waits for one. Needs a connection of its own: what is sent after it waits, too. */
export async function claim(redis, key, lease, block) {
  const jobs = await run(redis, "ZQ.CLAIM", 1, key, "LEASE", lease, "BLOCK", block);
  if (jobs.length === 0) return null;
  const [queue, id, token, attempt, deadlineMs, payload] = jobs[0];
  return { queue, id, token, attempt, deadlineMs, payload };
}
