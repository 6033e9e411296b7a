/** A store for @fastify/rate-limit, which is not imported. */

import type { RedisClient } from "../connection.js";
import { asError } from "../errors.js";
import { Counting, type Hits, type StoreOptions } from "./counting.js";
import { Strikes } from "./strikes.js";

interface Hit {
  readonly current: number;
  /** Milliseconds. */
  readonly ttl: number;
}

type Callback = (error: Error | null, hit?: Hit) => void;

/** The settings that the store reads from the plugin or a route. */
interface Settings {
  readonly ban?: number;
  readonly continueExceeding?: boolean;
  readonly exponentialBackoff?: boolean;
  readonly routeInfo?: { readonly method?: unknown; readonly url?: unknown };
}

export interface FastifyStore {
  incr(key: string, callback: Callback, timeWindow: number, max: number): void;
  read(key: string, callback: Callback, timeWindow: number, max: number): void;
  child(settings: object): FastifyStore;
}

/** `fastify.register(rateLimit, { store: fastifyStore(redis, "api"), max: 100, timeWindow: "1 minute" })` */
export function fastifyStore(client: RedisClient, name: string, options: StoreOptions = {}): new (settings: object) => FastifyStore {
  return class Store implements FastifyStore {
    readonly #counting: Counting;
    /** Counts denied requests, if an option of the plugin needs the count. */
    readonly #strikes: Strikes | undefined;

    constructor(settings: Settings, route = "") {
      const { ban = -1, continueExceeding = false, exponentialBackoff = false } = settings;
      this.#counting = new Counting(client, name + route, options);
      if (ban > 0 || continueExceeding || exponentialBackoff) {
        const prefix = `${options.prefix ?? ""}${name}${route}:`;
        this.#strikes = new Strikes(client, prefix, { ban, continueExceeding, exponentialBackoff }, options.timeout);
      }
    }

    incr(key: string, callback: Callback, timeWindow: number, max: number): void {
      respond(this.#hit(key, timeWindow, max), callback);
    }

    async #hit(key: string, timeWindow: number, max: number): Promise<Hits> {
      const strikes = this.#strikes;
      if (!strikes) return this.#counting.hit(key, max, timeWindow);
      const block = await strikes.block(key);
      const hit = block ? { hits: max + 1, waitMs: block.waitMs } : await this.#counting.hit(key, max, timeWindow);
      if (hit.hits <= max) return hit;
      const { count, waitMs } = await strikes.add(key, timeWindow, hit.waitMs);
      return { hits: max + count, waitMs };
    }

    read(key: string, callback: Callback, timeWindow: number, max: number): void {
      respond(this.#counting.look(key, max, timeWindow), callback);
    }

    /** Returns a store for a route with its own settings. Its limits are separate. */
    child(settings: Settings): FastifyStore {
      const { method, url } = settings.routeInfo ?? {};
      return new Store(settings, method === undefined ? "" : `:${String(method)}${String(url)}`);
    }
  };
}

function respond(hits: Promise<Hits>, callback: Callback): void {
  hits.then(
    ({ hits, waitMs }) => callback(null, { current: hits, ttl: waitMs }),
    (thrown: unknown) => callback(asError(thrown)),
  );
}
