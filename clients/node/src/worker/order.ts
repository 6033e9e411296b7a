/**
 * The order in which a claim names the queues.
 *
 * The server takes jobs from the first queue that has some. Without weights, the order is always the same. With weights,
 * each queue has a clock, which runs slower the higher its weight is: a job moves it by 1 / weight. The queue whose
 * clock is behind comes first. A queue that had no job for a while does not catch up: its clock is set to that of the
 * others.
 */

export type Weights = Readonly<Record<string, number>>;

export class Order<Queue> {
  readonly #clocks = new Map<Queue, number>();

  constructor(
    private readonly queues: readonly Queue[],
    /** The weight of each queue. */
    private readonly weightOf: ((queue: Queue) => number) | undefined,
  ) {
    for (const queue of queues) this.#clocks.set(queue, 0);
  }

  next(): readonly Queue[] {
    if (!this.weightOf) return this.queues;
    return [...this.queues].sort((a, b) => this.#clockOf(a) - this.#clockOf(b));
  }

  /**
   * Handles the reply to a claim that named the queues in `order`. `jobs`: the queue of each claimed job. `isFull`:
   * whether the claim got as many jobs as it asked for. If not, all queues are empty now.
   */
  claimed(order: readonly Queue[], jobs: readonly Queue[], isFull: boolean): void {
    if (!this.weightOf) return;
    for (const queue of jobs) this.#clocks.set(queue, this.#clockOf(queue) + 1 / this.weightOf(queue));
    const last = jobs.at(-1);
    const passed = isFull && last !== undefined ? order.indexOf(last) : order.length;
    // The server has passed by the queues before the last one: they are empty.
    for (const queue of order.slice(0, passed)) this.#clocks.set(queue, Math.max(...this.#clocks.values()));
  }

  #clockOf(queue: Queue): number {
    return this.#clocks.get(queue) ?? 0;
  }
}

export function checkedWeights(weights: Weights | undefined, queues: readonly string[]): Weights | undefined {
  if (!weights) return undefined;
  const names = Object.keys(weights);
  if (names.length !== queues.length || !queues.every((queue) => names.includes(queue))) {
    throw new RangeError(`weights need a number for each queue of the worker: ${queues.join(", ")}`);
  }
  for (const [queue, weight] of Object.entries(weights)) {
    if (!(weight > 0 && weight < Infinity)) throw new RangeError(`a weight is a number above 0: ${queue} has ${weight}`);
  }
  return weights;
}
