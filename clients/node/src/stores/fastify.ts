/** A store for @fastify/rate-limit, which is not imported. */

import type { RedisClient } from "../connection.js";
import { asError } from "../errors.js";
import { Counting, type Hits, type StoreOptions } from "./counting.js";

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

    constructor(settings: Settings, route = "") {
      const { ban = -1, continueExceeding, exponentialBackoff } = settings;
      if (ban > 0) throw new TypeError("ban cannot be reached: requests that are denied are not counted; set it to 0 or leave it out");
      if (continueExceeding || exponentialBackoff) {
        throw new TypeError("continueExceeding and exponentialBackoff need a count of denied requests, which are not counted");
      }
      this.#counting = new Counting(client, name + route, options);
    }

    incr(key: string, callback: Callback, timeWindow: number, max: number): void {
      respond(this.#counting.hit(key, max, timeWindow), callback);
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
