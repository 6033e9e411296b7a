/** Limits in front of web services: Express and Fastify, neither of which is imported. */

import { asError } from "./errors.js";
import { type Check, checkAll, type Checks, type Limiter } from "./limiter.js";

export interface LimitOptions<Request> {
  /** Whose limit it is, by default the address of the client. Null: this request is not limited. */
  readonly key?: (request: Request) => string | null | Promise<string | null>;
  /** How many units the request costs, by default 1. */
  readonly cost?: number | ((request: Request) => number | Promise<number>);
}

interface Refusal {
  readonly status: 429 | 503;
  readonly title: string;
}

interface Outcome {
  readonly headers: Record<string, string>;
  readonly refusal?: Refusal;
}

/** Asks the limits of a request: one, or several at once. */
async function decide<Request extends { ip?: string | undefined }>(
  limits: Limiter | readonly Limiter[],
  { key = (request) => request.ip ?? null, cost = 1 }: LimitOptions<Request>,
  request: Request,
): Promise<Outcome> {
  const who = await key(request);
  if (who === null) return { headers: {} };
  const units = typeof cost === "function" ? await cost(request) : cost;
  const list = [limits].flat() as readonly Limiter[];
  const [only, ...more] = list;
  if (!only) return { headers: {} };
  const check: Check | Checks =
    more.length === 0
      ? await only.check(who, { cost: units })
      : await checkAll(...list.map((limiter) => [limiter, who, units] as const));
  const headers = check.headers();
  if (check.allowed) return { headers };
  if (check.error) return { headers, refusal: { status: 503, title: "Service unavailable" } };
  return { headers, refusal: { status: 429, title: "Too many requests" } };
}

const PROBLEM = "application/problem+json";

/** What is used of Express. */
export interface ExpressRequest {
  readonly ip?: string | undefined;
}
export interface ExpressResponse {
  set(fields: Record<string, string>): unknown;
  status(code: number): ExpressResponse;
  type(type: string): ExpressResponse;
  send(body: string): unknown;
}

/** `app.use(expressLimit(limiter))`, or in front of a route. Answers 429 where a limit denies; see the README for the rest. */
export function expressLimit<Request extends ExpressRequest = ExpressRequest>(
  limits: Limiter | readonly Limiter[],
  options: LimitOptions<Request> = {},
) {
  return (request: NoInfer<Request>, response: ExpressResponse, next: (error?: unknown) => void): void => {
    decide(limits, options, request).then(
      ({ headers, refusal }) => {
        response.set(headers);
        if (!refusal) return next();
        response.status(refusal.status).type(PROBLEM).send(JSON.stringify(refusal));
      },
      (error: unknown) => next(asError(error)),
    );
  };
}

/** What is used of Fastify. */
export interface FastifyRequest {
  readonly ip: string;
}
export interface FastifyReply {
  headers(fields: Record<string, string>): unknown;
  code(code: number): unknown;
  type(type: string): unknown;
  send(body: string): unknown;
}

/** `fastify.addHook("onRequest", fastifyLimit(limiter))`, or as `onRequest` of a route. */
export function fastifyLimit<Request extends FastifyRequest = FastifyRequest>(
  limits: Limiter | readonly Limiter[],
  options: LimitOptions<Request> = {},
) {
  return async (request: NoInfer<Request>, reply: FastifyReply): Promise<unknown> => {
    const { headers, refusal } = await decide(limits, options, request);
    reply.headers(headers);
    if (!refusal) return undefined;
    reply.code(refusal.status);
    reply.type(PROBLEM);
    return reply.send(JSON.stringify(refusal));
  };
}
