"""Runs README.md and the recipes word by word. Each block is a program, and must print what its comments say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .support import MODULE, PATIENCE, Server

README = Path(__file__).resolve().parents[1] / "README.md"
RECIPES = Path(__file__).resolve().parents[3] / "docs" / "recipes"
BLOCK = re.compile(r"((?:^<!-- prints: .*? -->\n)*)^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[list[str], str]]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(re.findall(r"prints: (.*?) -->", comments), code) for comments, code in found]


BLOCKS = blocks(README)
# In a recipe, a block without expected output is only a part of a program, and is not run.
PROGRAMS = [(page.stem, *block) for page in sorted(RECIPES.glob("*.md")) for block in blocks(page) if block[0]]

# `redis.Redis()` and localhost:6379 are replaced by the server of the test. Nothing else is changed.
PROGRAM = """
import sys, redis, redis.asyncio
for kind in (redis.Redis, redis.asyncio.Redis):
    def init(self, *args, _original=kind.__init__, **options):
        _original(self, *args, **{"port": int(sys.argv[1]), **options})
    kind.__init__ = init
exec(compile(sys.argv[2].replace("localhost:6379", "localhost:" + sys.argv[1]), "README.md", "exec"), {"__name__": "__main__"})
"""


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 7 and sum(bool(printed) for printed, _ in BLOCKS) >= 6
    assert len(PROGRAMS) >= 2


def test_a_limit_takes_five_lines_and_a_worker_ten() -> None:
    def lines(section: str) -> int:
        code = README.read_text().split(section)[1].split("```python\n")[1].split("```")[0]
        return len([line for line in code.splitlines() if line.strip()])

    assert lines("## A limit in five lines") <= 5 and lines("## A worker in ten") <= 10


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readme_runs(shared: Server, one: Any, tmp_path: Path, number: int) -> None:
    for module in ("dramatiq", "fastapi", "flask", "httpx", "limits", "opentelemetry", "taskiq"):
        pytest.importorskip(module)
    runs(shared, tmp_path, *BLOCKS[number])


@pytest.mark.parametrize("recipe", PROGRAMS, ids=lambda recipe: recipe[0])
def test_recipes_run(shared: Server, one: Any, tmp_path: Path, recipe: tuple[str, list[str], str]) -> None:
    runs(shared, tmp_path, *recipe[1:])


def test_the_readme_has_types(tmp_path: Path) -> None:
    """mypy checks each block as it is printed, as strictly as a user may."""
    pytest.importorskip("mypy")
    for number, (_, code) in enumerate(BLOCKS):
        (tmp_path / f"block_{number}.py").write_text(code)
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--no-incremental"]
    found = subprocess.run([sys.executable, "-m", "mypy", *options, *sorted(map(str, tmp_path.glob("*.py")))], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def runs(shared: Server, tmp_path: Path, expected: list[str], code: str) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", PROGRAM, str(shared.port), code], stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "ZEITSET_MODULE": str(MODULE)},
        )
    end = time.monotonic() + PATIENCE
    told = False
    while process.poll() is None and time.monotonic() < end:
        if not told and expected and all(text in printed.read_text() for text in expected):
            if "run()" in code and "burst" not in code:  # a worker runs until the test stops it
                process.send_signal(signal.SIGTERM)
            told = True
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
    text = printed.read_text()
    assert process.wait() == 0, text
    for line in expected:
        assert line in text, text
