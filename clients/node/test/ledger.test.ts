/** The ledger of the chaos run notices each violation. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Hold, judge, type Push, type Report } from "./support/ledger.js";

const pushed = { askedMs: 100_000, repliedMs: 100_100 };
const PUSHES: Push[] = [
  { number: 0, id: "ttl:0", group: "a", ttlMs: 1000, ...pushed },
  { number: 1, id: "again:0", ...pushed },
  { number: 2, id: "again:0", askedMs: 102_000, repliedMs: 102_100 },
  { number: 3, id: "group:3", group: "a", ...pushed },
  { number: 4, id: "group:4", group: "a", ...pushed },
];
type Runs = Record<number, [claimedMs: number, overMs: number] | undefined>;
const RUNS: Runs = {
  0: [100_200, 100_500],
  1: [100_200, 103_000],
  2: [103_100, 104_000],
  3: [105_200, 106_000], // ends by holding its group
  4: [107_200, 108_000],
};
const HOLDS: Hold[] = [
  { group: "a", askedMs: 101_000, repliedMs: 101_100, ms: 60_000, isAccepted: true },
  { group: "a", askedMs: 105_000, repliedMs: 105_100, ms: 0, isAccepted: true },
];

const cases: [violation: string | undefined, changed: Runs, dropped: number][] = [
  [undefined, {}, 0],
  [undefined, { 0: undefined }, 1],
  ["late", { 0: [105_200, 105_300] }, 0],
  ["neitherDoneNorDropped", { 0: undefined }, 0],
  ["droppedTooOften", {}, 1],
  ["lost", { 2: undefined }, 0],
  ["lost", { 4: undefined }, 0],
  ["twice", { 2: [102_500, 104_000] }, 0],
  ["claimedFromHeldGroups", { 3: [103_000, 104_000] }, 0], // held by the test
  ["claimedFromHeldGroups", { 4: [106_500, 108_000] }, 0], // held by the worker of job 3
];

for (const [violation, changed, dropped] of cases) {
  test(`the ledger notices ${violation ?? "nothing"}: ${JSON.stringify(changed)}, ${dropped} dropped`, () => {
    const reports: Report[] = PUSHES.flatMap(({ number, id }) => {
      const [claimedMs, overMs] = { ...RUNS, ...changed }[number] ?? [];
      if (claimedMs === undefined || overMs === undefined) return [];
      const report = (what: Report["what"], atMs: number): Report => ({ what, id, number, token: claimedMs * 1000, atMs, pid: 1 });
      const ends = [report("done", overMs), report("over", overMs), report("completed", overMs + 50)];
      return [report("begun", claimedMs), ...ends, ...(number === 3 ? [report("hold", overMs), report("retried", overMs + 100)] : [])];
    });
    const { violations } = judge(reports, PUSHES, HOLDS, () => false, dropped);
    const found = Object.entries(violations).filter(([, found]) => (typeof found === "number" ? found > 0 : found.length > 0));
    assert.deepEqual(found.map(([name]) => name), violation ? [violation] : []);
  });
}
