"""Units ahead against a model of the server. Processes share a simulated clock, replies take long, processes die, and
refunds get lost."""

from __future__ import annotations

import heapq
import itertools
import os
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from zeitset import _ahead, _deciding, _denials
from zeitset._call import Call
from zeitset._deciding import Decider, AwaitReply, Steps
from zeitset._limits import Check, LimiterCalls

LIMIT, WINDOW_MS, CHECKS = 60, 200, 1500
# One history takes a quarter of a second in Python, and some milliseconds in the Rust models. So this test runs a tenth
# of the histories.
SEEDS = max(60, int(os.environ.get("ZEITSET_SEEDS", "0")) // 10)


class Model:
    """A sliding limit by its definition: a log of the units that were taken, by a clock of whole milliseconds."""

    def __init__(self) -> None:
        self.log: list[list[int]] = []

    def execute(self, args: tuple[Any, ...], seconds: float) -> Any:
        time = int(seconds * 1000)
        if args[0] == "ZRL.REFUND":
            entry = next((entry for entry in self.log if entry[0] == int(args[4][:-2]) > time), list[int]([0, 0]))
            given = min(args[2], entry[1])
            entry[1] -= given
            return given
        limit, window = args[2], int(args[3][:-2])
        units = args[5] if "COST" in args else 1
        held = [entry for entry in self.log if entry[0] > time]
        free = limit - sum(entry[1] for entry in held)
        if units <= free:
            until = time + window
            entry = next((entry for entry in self.log if entry[0] == until), list[int]())
            if not entry:
                self.log.append([until, units])
            else:
                entry[1] += units
            return [1, limit, free - units, 0, window, until]
        missing = units - free
        for until, taken in sorted(held):
            missing -= taken
            if missing <= 0:
                return [0, limit, free, until - time, window, 0]
        raise AssertionError("a cost above the limit")


class World:
    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.time = self.random.uniform(0, 1000)
        for module in (_ahead, _deciding, _denials):
            monkeypatch.setattr(module, "now", lambda: self.time)
        self.model = Model()
        self.calls = 0
        self.handed_out: list[tuple[float, int]] = []
        self._count = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.time + seconds, next(self._count), do))

    def run(self) -> None:
        while self._agenda:
            self.time, _, do = heapq.heappop(self._agenda)
            do()


class Process:
    def __init__(self, world: World, ahead: int | None) -> None:
        self.world = world
        self.ahead = ahead
        self.restart()

    def restart(self) -> None:
        """Kills the process: the held units and the calls in flight are lost."""
        self.decider = Decider(LimiterCalls("a", f"{LIMIT}/{WINDOW_MS}ms", ahead=self.ahead), None, True)

    def check(self, cost: int) -> None:
        decider = self.decider
        known = decider.known("x", cost)
        if known is not None:
            if known.allowed:
                self.world.handed_out.append((self.world.time, cost))
        else:
            self.step(decider, decider.check("x", cost, False), cost)

    def sweep(self) -> None:
        for back in self.decider.ahead.due() if self.decider.ahead else ():
            self.send(self.decider, self.decider.calls.refund(*back), lambda reply, at: None)

    def step(self, decider: Decider, steps: Steps[Check], cost: int, reply: Any = None, at: float | None = None) -> None:
        """Carries out the next step of a check. `at`: when the server decided. None: the units are held units, handed
        out now."""
        if decider is not self.decider:
            return
        try:
            found = steps.send(reply)
        except StopIteration as end:
            if end.value.allowed:
                self.world.handed_out.append((self.world.time if at is None else at, cost))
            return
        if isinstance(found, AwaitReply):
            if not found.ahead.join(found.call, lambda: self.world.later(0, lambda: self.step(decider, steps, cost))):
                self.step(decider, steps, cost)
        else:
            assert isinstance(found, Call)
            self.send(decider, found, lambda reply, at: self.step(decider, steps, cost, found.parse(reply), at))

    def send(self, decider: Decider, call: Call[Any], answer: Callable[[Any, float], None]) -> None:
        world = self.world
        world.calls += 1
        there, back = (world.random.choice((0, 0.0004, 0.001, 0.003, 0.02)) * world.random.random() for _ in range(2))

        def execute() -> None:
            reply, at = world.model.execute(call.args, world.time), world.time
            world.later(back, lambda: answer(reply, at))

        if call.args[0] != "ZRL.REFUND" or world.random.random() < 0.9:
            world.later(there, execute)


def most_in_a_window(handed_out: list[tuple[float, int]], seconds: float) -> int:
    most = inside = 0
    window: deque[tuple[float, int]] = deque()
    for time, units in sorted(handed_out):
        window.append((time, units))
        inside += units
        while window[0][0] <= time - seconds:
            inside -= window.popleft()[1]
        most = max(most, inside)
    return most


def test_no_window_has_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    busy: list[tuple[int, int]] = []
    for seed in range(SEEDS):
        world = World(seed, monkeypatch)
        processes = [Process(world, world.random.choice((1, 2, 7, 20, 500))) for _ in range(world.random.randint(1, 5))]
        pace = world.random.choice((0.0001, 0.0005, 0.004))
        kills = world.random.choice((0, 0.002))
        costs = world.random.choice(((1,), (1, 1, 2, 5)))
        at = 0.0
        for _ in range(CHECKS):
            at += world.random.expovariate(1 / pace)
            process, cost, dies = world.random.choice(processes), world.random.choice(costs), world.random.random() < kills
            world.later(at, process.restart if dies else lambda process=process, cost=cost: process.check(cost))  # type: ignore[misc]
            if world.random.random() < 0.2:
                world.later(at, process.sweep)
        world.run()
        most = most_in_a_window(world.handed_out, WINDOW_MS / 1000)
        assert most <= LIMIT, f"seed {seed}"
        if pace == 0.0001 and not kills:
            busy.append((most, world.calls))
    # A single history may use few units: one process may take units and give them back, while the other waits for
    # replies.
    assert max(most for most, _ in busy) > LIMIT * 0.9, "the limit is used"
    assert sum(calls for _, calls in busy) < len(busy) * CHECKS / 3, "the server is asked for few of the checks"


def test_units_that_are_held_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the sweep, the server counts only the units that were handed out."""
    for seed in range(20):
        world = World(seed, monkeypatch)
        process = Process(world, 20)
        for number in range(30):
            world.later(number * 0.0002, lambda: process.check(1))
        for number in range(12):
            world.later(0.01 + number * 0.002, process.sweep)
        world.random.random = lambda: 0.0  # type: ignore[method-assign]
        world.run()
        assert sum(units for _, units in world.model.log) == sum(units for _, units in world.handed_out) == 30
        assert process.decider.ahead is not None and process.decider.ahead.pause() is None
        assert world.calls < 15
