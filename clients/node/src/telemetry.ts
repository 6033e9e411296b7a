/**
 * The interface `Telemetry`. Queues and workers report their operations to it. `OpenTelemetry` of zeitset/otel
 * implements it.
 */

/** A job that a handler runs. */
export interface Handled {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
  /** The traceparent of the push, if the job has one. */
  readonly traceparent?: string | undefined;
}

export interface Telemetry {
  /** Whether a `traceparent` is sent with each job. */
  readonly propagate: boolean;
  /** Returns the traceparent of the active span. */
  traceparent(): string | undefined;
  /** Runs `push`, which pushes `count` jobs. Returns the id of each job, or null for a job that was not added. */
  pushes(queue: string, count: number, push: () => Promise<(string | null)[]>): Promise<(string | null)[]>;
  handles(job: Handled, handler: () => unknown): Promise<unknown>;
}
