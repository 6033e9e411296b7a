import { setTimeout as sleep } from "node:timers/promises";

/** How long anything in a test may take, on a machine that is busy with others. */
export const PATIENCE_MS = 60_000;

/** Waits until that is so, and fails with the last reason why it was not. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, patience = PATIENCE_MS): Promise<void> {
  const end = Date.now() + patience;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await sleep(20);
  }
}

/** A promise with its resolve outside. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
