/**
 * The boundary to Redis: every command is sent, and every reply is read, through {@link Bounded}.
 *
 * Whatever a client library throws here says that the connection is lost ({@link lost}), unless it is an error reply of
 * the server. A command that changes something is sent at most once. If its reply gets lost, the promise rejects with
 * {@link OutcomeUnknown}.
 */

import type { Address, Format, Nodes, Own, Reply, Scout, Word } from "./connection.js";
import { asError, lost } from "./errors.js";

/** The commands that are sent at most once: a second one would change something else, or get another reply. */
const ONCE = new Set([
  ...["ZRL.CHECK", "ZRL.MCHECK", "ZRL.REFUND", "DEL", "ZEXP.ADD", "ZEXP.EXPIRE", "ZEXP.PERSIST", "ZEXP.REM", "ZEXP.POP", "ZEXP.ADOPT"],
  ...["ZLB.SET", "ZLB.INCR", "ZLB.REM", "ZLB.REMRANGE", "ZLB.MERGE", "ZLB.CLEAR"],
  ...["ZQ.CANCEL", "ZQ.RESCHEDULE", "ZQ.REDRIVE", "ZQ.CLEAN", "ZQ.HOLD"],
]);

export class Bounded implements Own {
  constructor(private readonly inner: Own) {}

  async send(key: string, words: readonly Word[], format?: Format): Promise<Reply> {
    const checked = words.map(wordOf);
    const isOnce = ONCE.has(String(words[0]));
    return within(() => (isOnce ? this.inner.sendOnce(key, checked, format) : this.inner.send(key, checked, format)));
  }

  async sendOnce(key: string, words: readonly Word[], format?: Format): Promise<Reply> {
    const checked = words.map(wordOf);
    return within(() => this.inner.sendOnce(key, checked, format));
  }

  get canSendOnce(): boolean {
    return this.inner.canSendOnce;
  }

  async pipeline(key: string, commands: readonly (readonly Word[])[], format?: Format): Promise<(Reply | Error)[]> {
    const checked = commands.map((words) => words.map(wordOf));
    return (await within(() => this.inner.pipeline(key, checked, format))).map(bounded);
  }

  async transaction(key: string, commands: readonly (readonly Word[])[]): Promise<(Reply | Error)[]> {
    const checked = commands.map((words) => words.map(wordOf));
    return (await within(() => this.inner.transaction(key, checked))).map(bounded);
  }

  isReady(): boolean {
    return this.inner.isReady();
  }

  get isCluster(): boolean {
    return this.inner.isCluster;
  }

  get isPinned(): boolean {
    return this.inner.isPinned;
  }

  scout(): Scout {
    const scout = this.inner.scout();
    const open = async (): Promise<Nodes> => {
      const { addresses, own } = await within(() => scout.open());
      return { addresses, own: (address: Address) => new Bounded(own(address)) };
    };
    return { open, close: () => scout.close() };
  }

  own(): Own {
    return new Bounded(this.inner.own());
  }

  open(): Promise<void> {
    return within(() => this.inner.open());
  }

  close(): void {
    try {
      this.inner.close();
    } catch {
      // The connection is not used again.
    }
  }
}

async function within<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (thrown) {
    throw lost(thrown);
  }
}

const bounded = (reply: Reply | Error): Reply | Error => (isError(reply) ? lost(reply) : reply);

function isError(reply: Reply | Error): boolean {
  try {
    return reply instanceof Error;
  } catch {
    return false;
  }
}

/** A word that no library can send is an error of the caller, and not of the connection. */
function wordOf(word: Word): Word {
  if (typeof word === "string" || word instanceof Uint8Array) return word;
  throw new TypeError(`a word of a command is a string or a Buffer, not ${typeof word}`);
}

/** Reads a reply. If that fails, the reply is not that of Redis to this command. */
export function decoded<T>(read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw lost(thrown);
  }
}

/** Like {@link decoded}, but returns the error. */
export function decodedOrError<T>(read: () => T): T | Error {
  try {
    return decoded(read);
  } catch (thrown) {
    return asError(thrown);
  }
}
