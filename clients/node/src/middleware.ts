/** Limits in front of web services, for Express, Fastify and Hono. This module imports none of the three. */

import { clientNetwork } from "./identity.js";
import { asError } from "./errors.js";
import { type Check, checkAll, type Checks, type Limiter } from "./limiter.js";

export interface LimitOptions<Request> {
  /**
   * Returns the key of the client; null if the request is not limited. By default, the key is the network of the
   * client: see {@link clientNetwork}.
   */
  readonly key?: (request: Request) => string | null | Promise<string | null>;
  /** How many units the request costs, by default 1. */
  readonly cost?: number | ((request: Request) => number | Promise<number>);
  /**
   * Blocks a client that a limit has denied, for the window of this limiter: `new Limiter(redis, "blocked", "1/10m")`.
   * In the meantime, units that become available again do not help.
   */
  readonly block?: Limiter;
}

/** A problem document (RFC 9457). The draft of the RateLimit header fields defines the types of problems. */
interface Refusal {
  readonly type: string;
  readonly title: string;
  readonly status: 429 | 503;
  readonly "violated-policies": readonly string[];
}

const TYPES = "https://iana.org/assignments/http-problem-types#";

const exceeded = (policies: readonly string[]): Refusal => ({
  type: `${TYPES}quota-exceeded`,
  title: "Request cannot be satisfied as assigned quota has been exceeded",
  status: 429,
  "violated-policies": policies,
});

const reduced = (policies: readonly string[]): Refusal => ({
  type: `${TYPES}temporary-reduced-capacity`,
  title: "Request cannot be satisfied due to temporary server capacity constraints",
  status: 503,
  "violated-policies": policies,
});

interface Outcome {
  readonly headers: Record<string, string>;
  readonly refusal?: Refusal;
}

async function decide<Request>(
  limits: Limiter | readonly Limiter[],
  { key, cost = 1, block }: LimitOptions<Request> & Pick<Required<LimitOptions<Request>>, "key">,
  request: Request,
): Promise<Outcome> {
  const who = await key(request);
  if (who === null) return { headers: {} };
  const units = typeof cost === "function" ? await cost(request) : cost;
  const list = [limits, block ?? []].flat() as readonly Limiter[];
  const [only, ...more] = list;
  if (!only) return { headers: {} };
  const ask = (): Promise<Check | Checks> =>
    more.length === 0
      ? only.check(who, { cost: units })
      : checkAll(...list.map((limiter) => [limiter, who, limiter === block ? 0 : units] as const));
  let check = await ask();
  if (block && !check.allowed && !check.error && "checks" in check && check.checks.at(-1)?.allowed) {
    // A debt, because a call of cost 0 is denied only then. The limiters forget their denials, whose waits are shorter.
    await block.check(who, { cost: block.limit + 1, force: true });
    for (const { denials } of list) denials.forget(who);
    check = await ask();
  }
  const headers = check.headers();
  if (check.allowed) return { headers };
  if (check.error) return { headers, refusal: reduced(list.map(({ name }) => name)) };
  const checks = "checks" in check ? check.checks : [check];
  return { headers, refusal: exceeded(list.filter((_, at) => !checks[at]?.allowed).map(({ name }) => name)) };
}

/**
 * Combines the header fields of this limit with the fields that an outer middleware has set (`said`). If both set a
 * field, the outer value comes first. `Retry-After` gets only this limit's value.
 */
function joined(fields: Record<string, string>, said: (name: string) => unknown): Record<string, string> {
  const join = ([name, value]: [string, string]): [string, string] => {
    const before = said(name);
    return [name, before === undefined || name === "Retry-After" ? value : `${String(before)}, ${value}`];
  };
  return Object.fromEntries(Object.entries(fields).map(join));
}

const PROBLEM = "application/problem+json";

/** The part of Express that this module uses. */
export interface ExpressRequest {
  readonly ip?: string | undefined;
}
export interface ExpressResponse {
  get(name: string): unknown;
  set(fields: Record<string, string>): unknown;
  status(code: number): ExpressResponse;
  type(type: string): ExpressResponse;
  send(body: string): unknown;
}

/**
 * Returns a middleware for `app.use(expressLimit(limiter))`, or for one route. It responds 429 if a limit denies. See
 * the README.
 */
export function expressLimit<Request extends ExpressRequest = ExpressRequest>(
  limits: Limiter | readonly Limiter[],
  options: LimitOptions<Request> = {},
) {
  const network = clientNetwork();
  return (request: NoInfer<Request>, response: ExpressResponse, next: (error?: unknown) => void): void => {
    decide(limits, { key: network, ...options }, request).then(
      ({ headers, refusal }) => {
        response.set(joined(headers, (name) => response.get(name)));
        if (!refusal) return next();
        response.status(refusal.status).type(PROBLEM).send(JSON.stringify(refusal));
      },
      (error: unknown) => next(asError(error)),
    );
  };
}

/** The part of Fastify that is used. */
export interface FastifyRequest {
  readonly ip: string;
}
export interface FastifyReply {
  getHeader(name: string): unknown;
  headers(fields: Record<string, string>): unknown;
  code(code: number): unknown;
  type(type: string): unknown;
  send(body: string): unknown;
}

/** `fastify.addHook("onRequest", fastifyLimit(limiter))`. For one route, set the route's `onRequest` instead. */
export function fastifyLimit<Request extends FastifyRequest = FastifyRequest>(
  limits: Limiter | readonly Limiter[],
  options: LimitOptions<Request> = {},
) {
  const network = clientNetwork();
  return async (request: NoInfer<Request>, reply: FastifyReply): Promise<unknown> => {
    const { headers, refusal } = await decide(limits, { key: network, ...options }, request);
    reply.headers(joined(headers, (name) => reply.getHeader(name)));
    if (!refusal) return undefined;
    reply.code(refusal.status);
    reply.type(PROBLEM);
    return reply.send(JSON.stringify(refusal));
  };
}

/** The part of Hono's context that this file uses. */
export interface HonoContext {
  readonly env: unknown;
  readonly res: { readonly headers: { get(name: string): string | null } };
  header(name: string, value: string): void;
}

interface Incoming {
  readonly socket?: { readonly remoteAddress?: string };
  readonly headers?: { readonly [name: string]: string | readonly string[] | undefined };
}

/** Returns the request of Node.js, if Hono runs on Node.js. */
const incomingOf = ({ env }: HonoContext): Incoming | undefined => (env as { incoming?: Incoming } | undefined)?.incoming;

/**
 * Middleware for an application or a route: `app.use(honoLimit(limiter))`. Responds 429 if a limit denies. The default
 * `key` returns the client's network, and requires @hono/node-server. With other servers, or behind a proxy, pass
 * `key`.
 */
export function honoLimit<Context extends HonoContext = HonoContext>(
  limits: Limiter | readonly Limiter[],
  { key, ...options }: LimitOptions<Context> = {},
) {
  const network = clientNetwork();
  const who = (context: Context): string | null | Promise<string | null> => {
    if (key) return key(context);
    const incoming = incomingOf(context);
    if (!incoming) throw new TypeError("honoLimit knows no address of the client here: say the key");
    return network({ ip: incoming.socket?.remoteAddress, headers: incoming.headers });
  };
  return async (context: Context, next: () => Promise<void>): Promise<Response | undefined> => {
    const { headers, refusal } = await decide(limits, { ...options, key: who }, context);
    const all = joined(headers, (name) => context.res.headers.get(name) ?? undefined);
    for (const [name, value] of Object.entries(all)) context.header(name, value);
    if (!refusal) return void (await next());
    return new Response(JSON.stringify(refusal), { status: refusal.status, headers: { ...all, "Content-Type": PROBLEM } });
  };
}
