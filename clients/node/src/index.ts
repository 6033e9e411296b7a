/** Zeitset's commands as classes, over node-redis and ioredis. */

export { Board, type BoardInfo, type BoardOptions, type RangeOptions } from "./board.js";
export { type Codec, type CodecName, Undecodable } from "./codec.js";
export type { RedisClient } from "./connection.js";
export { CostTooHigh, LeaseLost, OutcomeUnknown, PayloadError, ProtocolError, Stopped, TimeoutError } from "./errors.js";
export { type Ask, Check, checkAll, Checks, type CheckOptions, Limiter, type LimiterOptions, type WaitOptions } from "./limiter.js";
export { clientNetwork, type ClientRequest } from "./identity.js";
export { expressLimit, fastifyLimit, honoLimit, type LimitOptions } from "./middleware.js";
export { Queue, type QueueOptions, queues } from "./queue.js";
export type { StoreOptions } from "./stores/counting.js";
export { ExpressStore } from "./stores/express.js";
export { type FastifyStore, fastifyStore } from "./stores/fastify.js";
export { NestStorage } from "./stores/nest.js";
export { ExpiringSet, type Expired } from "./set.js";
export type { Handled, Telemetry } from "./telemetry.js";
export type { Duration, Instant } from "./values.js";
export type { Entry, Ranking, SetOptions, Value, Values } from "./wire/boards.js";
export type { Algorithm } from "./wire/limits.js";
export type {
  CleanOptions,
  GroupInfo,
  JobInfo,
  Lease,
  Listed,
  PeekOptions,
  PushOptions,
  RedriveOptions,
  Settings,
  State,
  Stats,
} from "./wire/queues.js";
export type { AddOptions, AdoptOptions, ExpireOptions, MembersOptions } from "./wire/sets.js";
export { type Handler, Worker, type WorkerEvents, type WorkerOptions, type WorkerState } from "./worker.js";
export { Cron, type CronOptions } from "./worker/cron.js";
export { type Chained, Discard, type Job, Retry, type RetryOptions } from "./worker/job.js";
export type { JobEvent } from "./worker/outcome.js";
