/**
 * Claims jobs from the queues of one hash slot, and reports their outcomes to the server.
 *
 * While the queues have jobs, each turn is one round trip: outcomes of jobs, and a claim for as many jobs as the worker
 * can still start. If a claim returns fewer jobs than it asked for, the queues are empty. The next claim then waits for
 * jobs, on a connection of its own. All pumps share the worker's concurrency, so the worker decides when a pump claims,
 * and how many jobs.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { decodedOrError as read } from "../boundary.js";
import type { Address, Reply, Word } from "../connection.js";
import { asError, codeOf, isRefusal, passes } from "../errors.js";
import { fields, text } from "../values.js";
import * as wire from "../wire/claims.js";
import type { Chores } from "./chores.js";
import type { Holding } from "./holding.js";
import type { Job } from "./job.js";
import { askedBy, Link } from "./link.js";
import { Order } from "./order.js";
import * as outcomes from "./outcome.js";
import type { Place } from "./place.js";

/**
 * A claim without BLOCK reserves room for its jobs until the reply, but at most for this time. Then other pumps may use
 * the room.
 */
const PROMPT_MS = 200;

/** The part of a worker that all its pumps use. Each pump claims the jobs of one hash slot. */
export interface Shared<T> {
  readonly place: Place;
  readonly holding: Holding<T>;
  readonly name: string;
  readonly leaseMs: number;
  /** `working`: jobs may be started. `stopping`: the pump only reports outcomes. `stopped`: the pump does nothing. */
  phase(): "working" | "stopping" | "stopped";
  /** Returns the weight of the queue that has this key. Undefined: the queues are served in their order. */
  readonly weightOf: ((key: string) => number) | undefined;
  /** Returns how many more jobs may run. */
  room(): number;
  backoffMs(job: Job<T>): number | undefined;
  announce(name: outcomes.Ending | "stale" | "dead", event: outcomes.JobEvent<T>): void;
  announce(name: "disconnected" | "refused", event: { readonly error: Error }): void;
  connected(): void;
  /** Tells the worker to distribute its free slots again. */
  changed(): void;
  fail(error: Error): void;
  /** Reports the error of a promise that nothing awaits. */
  go(promise: Promise<void>): void;
}

export class Pump<T> {
  readonly #link: Link;
  readonly #keySet: ReadonlySet<string>;
  isConnected = false;
  isTurning = false;
  #claiming: "turn" | "wait" | undefined;
  #isEndingWait = false;
  /** Whether the last claim returned fewer jobs than its COUNT. */
  isDrained = false;
  #drainedMs = 0;
  /** How many of the worker's slots are reserved for a claim without BLOCK. */
  reserved = 0;
  #isBeating = false;
  #beatMs = 0;
  /**
   * Whether the server has just refused a command. While this is true, the pump sends no claims, and repeats no
   * outcomes.
   */
  #isResting = false;
  /** The number of the connection. Errors of an earlier connection are ignored. */
  #epoch = 0;
  /** The number of errors since the last successful claim. */
  #troubles = 0;
  /** The outcomes that are still to be reported. */
  #unreported: outcomes.Outcome<T>[] = [];
  #claims = 0;
  readonly #order: Order<readonly string[]>;
  /** The node to which the slot is being moved. */
  #asked: Address | undefined;

  constructor(
    /** The keys of each queue: its key, or the keys of its shards. The first queue is served first. */
    queues: readonly (readonly string[])[],
    private readonly chores: Chores,
    private readonly shared: Shared<T>,
  ) {
    const keys = queues.flat();
    this.#keySet = new Set(keys);
    this.#link = new Link(shared.place, keys[0] ?? "", shared.leaseMs);
    const { weightOf } = shared;
    this.#order = new Order(queues, weightOf && ((its) => weightOf(its[0] ?? "")));
  }

  // --- what to send next -----------------------------------------------------------------------------------------------------

  /** Stores the outcome of a job until the pump reports it. */
  ended(outcome: outcomes.Outcome<T>): void {
    this.#unreported.push(this.chores.andNext(outcome, this.shared.leaseMs));
  }

  /** Sends a command of a handler. */
  async ask(command: readonly Word[]): Promise<Reply> {
    const [reply = null] = await this.#link.request([command]);
    if (reply instanceof Error) throw reply;
    return reply;
  }

  hasBackoff(key: string): boolean {
    return this.chores.hasBackoff(key);
  }

  /**
   * The number of outcomes that are to be reported again, because a report failed. The worker still holds the jobs of
   * these outcomes. These jobs count towards `concurrency`.
   */
  get repeated(): number {
    return this.#unreported.filter((outcome) => outcome.isRepeated).length;
  }

  get mayClaim(): boolean {
    return this.isConnected && !this.#claiming && !this.#isResting;
  }

  /** Whether the queues are drained, and the last claim was at least `ms` ago. */
  isDrainedSince(ms: number): boolean {
    return this.isDrained && performance.now() - this.#drainedMs >= ms;
  }

  get isWaiting(): boolean {
    return this.#claiming === "wait";
  }

  /** Whether no request is in flight, and no outcome is left to be reported. */
  get isIdle(): boolean {
    return this.#unreported.length === 0 && !this.isTurning && !this.#claiming;
  }

  get isResting(): boolean {
    return this.#isResting;
  }

  /** Reports outcomes, and claims up to `count` jobs, in one round trip. */
  turn(count: number): void {
    if (!this.isConnected || this.isTurning) return;
    const again = this.#isResting ? this.#unreported.filter((outcome) => outcome.isRepeated) : [];
    const sending = this.#unreported.filter((outcome) => !again.includes(outcome));
    this.#unreported = again;
    if (sending.length > 0 || count > 0) this.shared.go(this.#turn(sending, count));
  }

  async #turn(sending: outcomes.Outcome<T>[], count: number): Promise<void> {
    this.isTurning = true;
    if (count > 0) this.#claiming = "turn";
    this.reserved = count;
    // A node that hangs must not keep slots from other pumps.
    const hung = setTimeout(() => this.#unreserve(), PROMPT_MS);
    const epoch = this.#epoch;
    const sentMs = performance.now();
    const [single, several] = [sending.filter((o) => o.commands.length === 1), sending.filter((o) => o.commands.length > 1)];
    const sent = single.map(({ commands, look }) => (look ? [...commands, look] : commands));
    const order = this.#order.next();
    const commands = [...sent.flat(), ...(count > 0 ? [this.#claim(order, count)] : [])];
    // One connection sends the commands in this order, so the claim sees the effects of the outcomes.
    const transactions = several.map(async (o) => this.#onReplies(o, await result(this.#link.transaction(o.commands)), epoch));
    const replies = await result(commands.length > 0 ? this.#link.request(commands, "bytes") : Promise.resolve([]));
    let at = 0;
    for (const [n, outcome] of single.entries()) {
      this.#onReplies(outcome, replies instanceof Error ? replies : replies.slice(at, (at += sent[n]?.length ?? 0)), epoch);
    }
    await Promise.all(transactions);
    clearTimeout(hung);
    this.reserved = 0;
    if (count > 0) {
      this.#claiming = undefined;
      this.#take(order, replies instanceof Error ? replies : (replies.at(-1) ?? null), count, sentMs, epoch);
    }
    this.isTurning = false;
    this.shared.changed();
  }

  #unreserve(): void {
    this.reserved = 0;
    this.shared.changed();
  }

  wait(count: number): void {
    this.shared.go(this.#wait(count));
  }

  async #wait(count: number): Promise<void> {
    this.#claiming = "wait";
    this.#isEndingWait = false;
    const epoch = this.#epoch;
    const sentMs = performance.now();
    const blockMs = this.#link.longestWaitMs;
    const order = this.#order.next();
    const reply = await result(this.#link.wait(this.#claim(order, count, blockMs), blockMs));
    this.#claiming = undefined;
    this.#take(order, reply, count, sentMs, epoch, false);
    this.shared.changed();
  }

  endWait(): void {
    if (!this.isWaiting || this.#isEndingWait || !this.isConnected) return;
    this.#isEndingWait = true;
    const epoch = this.#epoch;
    this.#link.endWait().catch((error: unknown) => this.#trouble(asError(error), epoch));
  }

  #claim(order: readonly (readonly string[])[], count: number, blockMs?: number): ReturnType<typeof wire.claim> {
    // The shards of a queue take turns to be the first.
    const turn = this.#claims++;
    const keys = order.flatMap((shards) => [...shards.slice(turn % shards.length), ...shards.slice(0, turn % shards.length)]);
    const claim = { keys, leaseMs: this.shared.leaseMs, count, worker: this.shared.name };
    return wire.claim(blockMs === undefined ? claim : { ...claim, blockMs });
  }

  #take(order: readonly (readonly string[])[], reply: Reply | Error, count: number, sinceMs: number, epoch: number, isShared = true): void {
    const jobs = reply instanceof Error ? reply : read(() => (reply === null ? [] : wire.claimed(reply)));
    if (jobs instanceof Error) return this.#trouble(jobs, epoch, isShared);
    this.#troubles = 0;
    this.#drainedMs = performance.now();
    this.isDrained = jobs.length < count;
    this.#order.claimed(order, jobs.map(({ key }) => order.find((keys) => keys.includes(key)) ?? []), !this.isDrained);
    for (const claimed of jobs) {
      if (this.chores.isUsedUp(claimed)) this.shared.holding.giveUp(claimed);
      else if (this.shared.phase() === "working" && this.shared.room() > 0) this.shared.holding.start(claimed, sinceMs);
      else {
        // Other pumps have used the slots.
        this.isDrained = false;
        this.shared.holding.giveBack(claimed);
      }
    }
  }

  /** Handles the server's replies to a reported outcome. The first reply is that of ZQ.ACK or ZQ.NACK. */
  #onReplies(outcome: outcomes.Outcome<T>, replies: readonly (Reply | Error)[] | Error, epoch: number): void {
    const reply = replies instanceof Error ? replies : (replies[0] ?? null);
    const hasEnded = reply instanceof Error ? reply : read(() => wire.ended(reply));
    if (hasEnded instanceof Error) return this.#notReported(outcome, hasEnded, epoch);
    const { job, ms, ending, commands, isRepeated } = outcome;
    const [others, [look]] = splitAt(replies as readonly (Reply | Error)[], commands.length);
    // The claim has ended even if a chained command has failed.
    const error = outcome.error ?? others.find((other) => other instanceof Error);
    const event = error ? { job, ms, error } : { job, ms };
    const isStale = !hasEnded && !isRepeated;
    this.shared.holding.settled(job);
    this.shared.announce(isStale ? "stale" : ending, event);
    if (!isStale && (outcome.isDead || isDead(look))) this.shared.announce("dead", event);
  }

  #notReported(outcome: outcomes.Outcome<T>, error: Error, epoch: number): void {
    const { job, ms, commands } = outcome;
    if (passes(error)) this.#unreported.push({ ...outcome, isRepeated: true });
    else if (commands.length > 1) {
      // The server refused a chained command, and therefore all commands of the MULTI.
      this.#unreported.push(outcomes.failed(job, ms, error, this.shared.backoffMs(job)));
      return;
    }
    this.#trouble(error, epoch);
  }

  // --- heartbeats ------------------------------------------------------------------------------------------------------------

  /** Sends heartbeats when they are due: three times per lease. */
  beatIfDue(): void {
    if (performance.now() - this.#beatMs >= this.shared.leaseMs / 3 - 1) this.shared.go(this.#beat());
  }

  async #beat(): Promise<void> {
    if (!this.isConnected || this.#isBeating) return;
    const beats = this.shared.holding.heartbeats(this.#keySet);
    this.#beatMs = performance.now();
    if (beats.length === 0) return;
    this.#isBeating = true;
    const epoch = this.#epoch;
    const replies = await result(this.#link.request(beats.map((beat) => beat.command)));
    this.#isBeating = false;
    if (replies instanceof Error) return this.#trouble(replies, epoch);
    for (const [at, reply] of replies.entries()) {
      const error = reply instanceof Error ? reply : read(() => beats[at]?.answered(reply));
      if (error instanceof Error) this.#trouble(error, epoch);
    }
  }

  // --- connections -----------------------------------------------------------------------------------------------------------

  async connect(): Promise<void> {
    while (this.shared.phase() !== "stopped") {
      if (this.#troubles > 0) await sleep(reconnectMs(this.#troubles));
      const asked = this.#asked;
      this.#asked = undefined;
      const error = await result(this.#link.open(asked).then(() => this.chores.run(this.#link)));
      if (error instanceof Error && isRefusal(error)) this.#refused(error);
      else if (error instanceof Error) {
        this.#drop(error);
        if (this.shared.phase() === "stopped") return;
        if (!passes(error)) return this.shared.fail(error);
        this.shared.announce("disconnected", { error });
        continue;
      }
      break;
    }
    if (this.shared.phase() === "stopped") return this.#link.drop(false);
    this.isConnected = true;
    this.isDrained = false;
    this.shared.connected();
    this.shared.go(this.#beat());
    this.shared.changed();
  }

  async doChores(): Promise<void> {
    if (!this.isConnected) return;
    const epoch = this.#epoch;
    const error = await result(this.chores.run(this.#link));
    if (error instanceof Error) this.#trouble(error, epoch);
  }

  /** Handles the error of a command. `isShared`: whether the command was sent on the connection that pumps share. */
  #trouble(error: Error, epoch: number, isShared = true): void {
    if (epoch !== this.#epoch || !this.isConnected) return;
    if (isRefusal(error)) return this.#refused(error);
    if (!passes(error)) return this.shared.fail(error);
    this.isConnected = false;
    this.#epoch += 1;
    this.#drop(error, isShared);
    this.shared.announce("disconnected", { error });
    this.shared.go(this.connect());
  }

  /**
   * Ends the pump's own connection, and forgets which nodes have the slots. `isShared`: whether the error occurred on
   * the connection that pumps share. If it did, and the error is not an error reply of the server, also ends the shared
   * connection.
   */
  #drop(error: Error, isShared = true): void {
    this.#troubles += 1;
    this.#asked = askedBy(error);
    this.shared.place.forget();
    this.#link.drop(isShared && codeOf(error) === undefined);
  }

  /**
   * Handles the error with which the server refused a command. The connection still works, so heartbeats continue. For
   * a short time, the pump sends no claims, and repeats no outcomes.
   */
  #refused(error: Error): void {
    this.shared.announce("refused", { error });
    if (this.#isResting) return;
    this.#isResting = true;
    this.#troubles += 1;
    setTimeout(() => {
      this.#isResting = false;
      this.shared.changed();
    }, reconnectMs(this.#troubles));
  }

  disconnect(): void {
    this.isConnected = false;
    this.#epoch += 1;
    this.#link.drop(false);
  }
}

/**
 * Returns the wait before the pump reconnects. It is 0.1 s after the first error, and doubles with each further error,
 * up to 3 s. It is shortened at random by up to a third, so that workers do not all reconnect at once.
 */
const reconnectMs = (troubles: number): number => Math.min(3000, 100 * 2 ** Math.min(troubles - 1, 10)) * (1 - Math.random() / 3);

const result = <R>(promise: Promise<R>): Promise<R | Error> => promise.catch(asError);

/** Returns whether ZQ.GET shows a dead letter. If ZQ.GET failed, returns false. */
const isDead = (reply: Reply | Error | undefined): boolean =>
  !!reply && !(reply instanceof Error) && read(() => text(fields(reply).get("state"))) === "dead";

const splitAt = <R>(list: readonly R[], at: number): [R[], R[]] => [list.slice(0, at), list.slice(at)];
