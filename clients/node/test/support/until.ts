import { setTimeout as sleep } from "node:timers/promises";

/** How long a test may wait for a condition, on a busy machine. */
export const PATIENCE_MS = 60_000;

/** Waits until the condition is true. Throws an error if that takes longer than `patience`. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, patience = PATIENCE_MS): Promise<void> {
  const end = Date.now() + patience;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await sleep(20);
  }
}

/** A promise with a function that resolves it. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
