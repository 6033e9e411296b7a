"""Runs Celery's own integration tests with this library's transport and with kombu's transport for Redis, and compares.

usage: python -m tests.celery_compare CELERY-SDIST FOLDER [ARGUMENTS OF PYTEST ...]

Both runs have the same URLs, results backend and server. Only the transport behind `redis://` differs, so each test
expects the same of both. Tests that do not pass with both transports run again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

from .support import Server

OURS, THEIRS = BROKERS = ("zeitset", "redis")
RERUNS = 3
DIFFERENT = {
    "t/integration/test_inspect.py::test_Inspect::test_scheduled": "a task with an ETA is in the queue, not in a worker"
}
"""These tests cannot pass with the transport of this library."""
PASSED = {"passed", "skipped"}
SITE = """import kombu.transport
import zeitset.celery
kombu.transport.TRANSPORT_ALIASES["redis"] = "zeitset.celery:Transport"
"""
"""Python runs this file at the start of each process that has the folder in its path."""


class Suite:
    def __init__(self, broker: str, sdist: Path, folder: Path) -> None:
        self.broker = broker
        self.folder = folder / broker
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(sdist / "t", self.folder / "t")
        shutil.copy(sdist / "pyproject.toml", self.folder)
        path = self.folder / "site"
        path.mkdir()
        if broker == OURS:
            (path / "sitecustomize.py").write_text(SITE)
        self.server = Server(self.folder)
        url = f"redis://localhost:{self.server.port}/0"
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(path),
            "TEST_BROKER": url,
            "TEST_BACKEND": url,
            "REDIS_HOST": "localhost",
            "REDIS_PORT": str(self.server.port),
        }

    def start(self, *arguments: str, name: str = "all") -> subprocess.Popen[bytes]:
        """Starts tests. Their output is in a log, their results in an XML file."""
        with self.server.client() as r:
            r.flushall()
        plugins = ["-p", "no:cacheprovider", "-p", "celery.contrib.pytest"]
        command = [sys.executable, "-m", "pytest", *plugins, "-q", "--timeout", "300", f"--junit-xml={name}.xml", *arguments]
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def results(self, name: str = "all") -> dict[str, str]:
        """Returns the result of each test by its name for pytest."""
        found: dict[str, str] = {}
        for case in xml.parse(self.folder / f"{name}.xml").iter("testcase"):
            kinds = {child.tag for child in case}
            result = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
            test = node(case.attrib["classname"], case.attrib["name"])
            if found.get(test, "passed") in PASSED:  # a subtest has a case of its own, with the same name
                found[test] = result
        return found


def node(classname: str, name: str) -> str:
    *path, last = classname.split(".")
    if last.startswith("test_") and path[-1].startswith("test_"):
        return f"{'/'.join(path)}.py::{last}::{name}"
    return f"{'/'.join([*path, last])}.py::{name}"


def run(suites: list[Suite], arguments: list[str], name: str) -> list[dict[str, str]]:
    """Runs the same tests with both transports, at the same time. Returns their results."""
    for suite, process in [(suite, suite.start(*arguments, name=name)) for suite in suites]:
        if process.wait() > 1:  # not even a failed test
            sys.exit((suite.folder / f"{name}.log").read_text()[-4000:])
    return [suite.results(name) for suite in suites]


def main(sdist: Path, folder: Path, arguments: list[str]) -> int:
    suites = [Suite(broker, sdist, folder) for broker in BROKERS]
    try:
        first = run(suites, arguments or ["t/integration"], "all")
        for suite, results in zip(suites, first):
            print(f"{suite.broker}://", *(f"{count} {result}" for result, count in sorted(Counter(results.values()).items())))
        ours, theirs = first
        same = {test for test, result in ours.items() if result == theirs.get(test) and result in PASSED}
        others = sorted((ours.keys() | theirs.keys()) - same - DIFFERENT.keys())
        again = [run(suites, others, f"again-{number}") for number in range(RERUNS)] if others else []
        worse = 0
        for test in others:
            columns = [[pair[side].get(test, "missing") for pair in (first, *again)] for side in range(2)]
            print(test, *(f"  {suite.broker}: {', '.join(column)}" for suite, column in zip(suites, columns)), sep="\n")
            worse += "passed" in columns[1] and "passed" not in columns[0]
        for test in DIFFERENT.keys() & ours.keys():
            print(test, f"  {DIFFERENT[test]}", sep="\n")
            worse += theirs[test] != "passed" or ours[test] == "passed"  # the reason is no longer true
        print(f"{worse} tests differ")
        return int(worse > 0)
    finally:
        for suite in suites:
            suite.server.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:]))
