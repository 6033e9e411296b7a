/** What code can throw: every built-in error, and things that nobody expects. */

/** Returns whatever is thrown by name. */
export function thrown(): Map<string, unknown> {
  const found = new Map<string, unknown>();
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    const kind = (globalThis as Record<string, unknown>)[name];
    if (typeof kind !== "function" || !(kind === Error || kind.prototype instanceof Error)) continue;
    const make = kind as new (...words: unknown[]) => Error;
    found.set(name, name === "AggregateError" ? new make([new Error("one of it")], "a group") : new make("no reason"));
  }
  const texts: [string, unknown][] = [undefined, null, 1, 1n, "text", true, {}, [], () => undefined].map((each, at) => [`value ${at}`, each]);
  for (const [name, value] of texts) found.set(name, value);
  found.set("a symbol", Symbol("odd"));
  found.set("no prototype", Object.create(null));
  found.set("an odd name", Object.assign(new Error("x"), { name: Symbol("odd") }));
  found.set("no message", Object.create(Error.prototype, { message: { get: fails } }));
  found.set("a proxy", hostile());
  for (let at = 0; at < 5; at++) found.set(`random ${at}`, Object.assign(new Error(Math.random().toString(36)), { code: Math.random().toString(36) }));
  return found;
}

function fails(): never {
  throw new URIError("no property");
}

/** Returns an object that throws whatever is done with it. `then` is undefined, so that it is no promise. */
const hostile = (): object => new Proxy({}, { get: (_, name) => (name === "then" ? undefined : fails()), has: fails, getPrototypeOf: fails });

/** Returns an array that throws when it is read. */
export function unreadable(fault: unknown): object {
  const get = (_: object, name: string | symbol): undefined => {
    if (name === "then") return undefined;
    throw fault;
  };
  return new Proxy([], { get });
}
