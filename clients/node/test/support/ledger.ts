/** The ledger of the chaos run: what workers reported, and the rules. Pure. */

/** The lease of the workers. */
export const LEASE_MS = 3000;
/** How long a worker holds a group. */
export const HELD_MS = 1000;
/** The server's clock counts whole milliseconds. */
const PRECISION_MS = 2;

export interface Report {
  readonly what: "begun" | "done" | "over" | "hold" | "completed" | "retried" | "stale" | "trouble" | "ended";
  readonly id: string;
  /** The number of the job's push, which is in its payload. */
  readonly number: number;
  readonly token: number;
  readonly atMs: number;
  readonly pid: number;
  readonly error?: string;
}

export interface Push {
  readonly number: number;
  readonly id: string;
  readonly askedMs: number;
  /** Undefined: the push failed, and may have added its job or not. */
  readonly repliedMs?: number | undefined;
  readonly group?: string | undefined;
  readonly ttlMs?: number | undefined;
  readonly chains?: boolean;
}

export interface Hold {
  readonly group: string;
  readonly askedMs: number;
  /** When the call had certainly taken effect or failed. */
  readonly repliedMs: number;
  /** 0: a release. */
  readonly ms: number;
  /** Whether the call certainly had an effect. */
  readonly isAccepted: boolean;
}

/** A run of a handler. The token is the time of its claim in microseconds. */
interface Run {
  readonly id: string;
  readonly number: number;
  readonly token: number;
  readonly claimedMs: number;
  readonly pid: number;
  /** When the worker reported each event of the run. */
  readonly atMs: { [what in Report["what"]]?: number };
}

/**
 * Returns figures and violations. `isInDoubt` returns whether the replica may lack writes from between two moments.
 * `dropped`: how many jobs the queue dropped because of their TTL.
 */
export function judge(
  reports: readonly Report[],
  pushes: readonly Push[],
  held: readonly Hold[],
  isInDoubt: (earliestMs: number, latestMs: number) => boolean,
  dropped: number,
) {
  const runs: Run[] = [];
  const byToken = new Map<number, Run>();
  for (const { what, id, number, token, atMs, pid } of reports) {
    if (what === "begun") {
      const run: Run = { id, number, token, claimedMs: token / 1000, pid, atMs: {} };
      runs.push(run);
      byToken.set(token, run);
    }
    const run = byToken.get(token);
    if (run) run.atMs[what] = atMs;
  }
  const troubles = reports.filter(({ what }) => what === "trouble");
  runs.sort((a, b) => a.token - b.token);
  const runsOf = new Map<string, Run[]>();
  for (const run of runs) runsOf.set(run.id, [...(runsOf.get(run.id) ?? []), run]);
  const ofPush = ({ id, number }: { id: string; number: number }): Run[] => (runsOf.get(id) ?? []).filter((run) => run.number === number);

  /** Returns whether the ACK or NACK, whose reply came at this time, was certainly accepted. */
  const isFinal = ({ claimedMs, pid, atMs: { over, done } }: Run, atMs: number | undefined): atMs is number => {
    if (atMs === undefined) return false;
    // The command was sent after the end of the handler.
    const sentMs = over ?? done ?? claimedMs;
    // A command that was sent again after a lost reply counts as accepted, although the job may have been claimed in
    // between.
    const isUnclear = troubles.some((trouble) => trouble.pid === pid && sentMs <= trouble.atMs && trouble.atMs <= atMs);
    return !isUnclear && !isInDoubt(claimedMs, claimedMs) && !isInDoubt(sentMs, atMs);
  };
  const completed = runs.filter(({ atMs }) => atMs.completed !== undefined);
  const final = new Set(completed.filter((run) => isFinal(run, run.atMs.completed)));

  // AGAIN: a later push of the same id stands for all earlier ones.
  const accepted = pushes.filter(({ askedMs, repliedMs }) => repliedMs !== undefined && !isInDoubt(askedMs, repliedMs));
  const lasting = accepted
    .filter(({ ttlMs }) => ttlMs === undefined)
    .flatMap(({ id, number, chains }) => (chains ? [{ id, number }, { id: `${id}:next`, number }] : [{ id, number }]));
  const since = ({ id, number }: { id: string; number: number }): Run[] => (runsOf.get(id) ?? []).filter((run) => run.number >= number);
  const lost = lasting.filter((job) => since(job).length === 0);
  const undone = lasting.filter((job) => since(job).length > 0 && !since(job).some(({ atMs }) => atMs.done !== undefined));

  // If a job is done twice, or its ACK is sent twice, its chained push is sent twice, too. The second push may come
  // after the pushed job is done.
  const isPushedOnce = ({ id }: Run): boolean => {
    if (!id.endsWith(":next")) return true;
    const parents = (runsOf.get(id.slice(0, -5)) ?? []).filter(({ atMs }) => atMs.done !== undefined);
    return parents.length === 1 && final.has(parents[0]!);
  };
  const again = [...final].filter((run) => isPushedOnce(run) && ofPush(run).some(({ claimedMs }) => claimedMs > run.atMs.completed! + 1));

  // A job is claimed a second time only if its first run is over, or if its lease has expired. An accepted ACK shows
  // that no other worker had claimed the job. A worker that stops does not tell when its cancelled handlers end.
  const twice = runs.filter((run) => {
    const { claimedMs, atMs: { over = 0, completed } } = run;
    const leasedMs = isInDoubt(claimedMs, claimedMs) ? 0 : claimedMs + LEASE_MS;
    const ackedMs = final.has(run) && isPushedOnce(run) ? completed! : 0;
    return runsOf.get(run.id)!.some(({ token, claimedMs: otherMs }) => {
      const isDuring = token > run.token && otherMs < over - PRECISION_MS;
      return isDuring && (otherMs < leasedMs - PRECISION_MS || (otherMs < ackedMs && !isInDoubt(otherMs, otherMs)));
    });
  });

  // TTL: after its TTL, a job is not claimed. If no handler finished a job, the queue has dropped it.
  const perishable = pushes.filter(({ ttlMs }) => ttlMs !== undefined);
  const late = perishable.filter(
    (push) => push.repliedMs !== undefined && ofPush(push).some(({ claimedMs }) => claimedMs > push.repliedMs! + push.ttlMs! + PRECISION_MS),
  );
  const least = accepted.filter((push) => push.ttlMs !== undefined && !ofPush(push).some(({ atMs }) => atMs.done !== undefined)).length;
  const most = perishable.filter((push) => !ofPush(push).some((run) => final.has(run))).length;

  // HOLD: no job of the group is claimed until the hold expires, or until another call may have replaced the hold.
  const groupOf = new Map(pushes.map(({ number, group }) => [number, group]));
  const byWorkers = runs.filter(({ atMs }) => atMs.hold !== undefined).map((run): Hold => {
    const { hold, retried } = run.atMs;
    const isAccepted = isFinal(run, retried);
    // If the NACK is not certainly accepted, it may take effect at any time before the next claim of the job.
    const repliedMs = isAccepted ? retried! : (ofPush(run).find(({ token }) => token > run.token)?.claimedMs ?? Infinity);
    return { group: groupOf.get(run.number) ?? "", askedMs: hold!, repliedMs, ms: HELD_MS, isAccepted };
  });
  const holds = [...held, ...byWorkers];
  const windows = holds.flatMap((hold) => {
    if (!hold.isAccepted || hold.ms === 0 || isInDoubt(hold.askedMs, hold.repliedMs)) return [];
    const others = holds.filter((other) => other !== hold && other.group === hold.group && other.repliedMs >= hold.askedMs);
    const end = Math.min(hold.askedMs + hold.ms, ...others.map(({ askedMs }) => askedMs));
    return end > hold.repliedMs ? [{ group: hold.group, begin: hold.repliedMs + PRECISION_MS, end: end - PRECISION_MS }] : [];
  });
  const during = windows.map(({ group, begin, end }) =>
    runs.filter(({ claimedMs }) => begin < claimedMs && claimedMs < end).map((run) => ({ run, isHeld: groupOf.get(run.number) === group })),
  ).flat();

  const repeats = pushes.filter(
    ({ id, askedMs }) => id.startsWith("again") && runsOf.get(id)?.some(({ claimedMs, atMs: { over = 0 } }) => claimedMs < askedMs && askedMs < over),
  );
  const ids = (list: readonly { id: string; number: number }[]): string[] => list.map(({ id, number }) => `${id} ${number}`);
  return {
    figures: {
      accepted: accepted.length, inDoubt: pushes.filter(({ repliedMs }) => repliedMs).length - accepted.length, runs: runs.length,
      acksInDoubtOrUnclear: completed.length - final.size, pushesWithTtl: perishable.length, dropped,
      pushesWithAgain: pushes.filter(({ id }) => id.startsWith("again")).length, againDuringARun: repeats.length,
      holds: windows.length, holdsByWorkers: byWorkers.filter(({ isAccepted }) => isAccepted).length,
      claimsOfOthersDuringHolds: during.filter(({ isHeld }) => !isHeld).length,
    },
    violations: {
      lost: ids(lost), undone: ids(undone), again: ids(again), twice: ids(twice), late: ids(late),
      claimedFromHeldGroups: ids(during.filter(({ isHeld }) => isHeld).map(({ run }) => run)),
      neitherDoneNorDropped: Math.max(0, least - dropped), droppedTooOften: Math.max(0, dropped - most),
    },
  };
}
