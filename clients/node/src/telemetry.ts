/** What a queue and a worker tell of what they do, and to whom: `OpenTelemetry` of zeitset/otel. */

/** What is known of a job that is handled. */
export interface Handled {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
  /** That of the push, if it came with the job. */
  readonly traceparent?: string | undefined;
}

export interface Telemetry {
  /** Whether a `traceparent` is sent with each job. */
  readonly propagate: boolean;
  /** That of what goes on now. */
  traceparent(): string | undefined;
  /** Runs what adds jobs, `count` of them, and answers their ids: null for one that was there. */
  pushes(queue: string, count: number, push: () => Promise<(string | null)[]>): Promise<(string | null)[]>;
  /** Runs a handler. */
  handles(job: Handled, handler: () => unknown): Promise<unknown>;
}
