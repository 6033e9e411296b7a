"""Runs tests of kombu and of Celery themselves with `zeitset://`, from their source distributions.

`CELERY_FAULTS=1` also runs the tests that take minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .support import Server

pytest.importorskip("celery")

KOMBU = os.environ.get("KOMBU_SDIST")
CELERY = os.environ.get("CELERY_SDIST")
SLOW = bool(os.environ.get("CELERY_FAULTS"))
INSIDE = "RestoreVisible or RestoreBindingLookupFailure or RestoreAtShutdown"
"""These tests of kombu read the keys in which its transport for Redis keeps unacknowledged messages."""
SHORT = "Basic or ExchangeTypes or Priority or Batch or EventLoop or hub or paused"
OTHERWISE = " or ".join(
    (
        "test_scheduled",  # expects a task with an ETA in the memory of a worker
        "test_replaced_task_nesting_level_0",  # its handler may run before the test resets the flag
        "test_chord_header_id_duplicated_on_rabbitmq",  # is expected to fail if the URL begins with redis
        "test_trace_log_arguments",  # fails with redis://, too, unless the tests of Celery run alone
    )
)
"""These tests of Celery do not pass."""
SETTINGS = """[pytest]
python_classes = test_*
filterwarnings = ignore
"""


def run(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    (folder / "pytest.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rf", "-p", "no:rerunfailures", *arguments]
    found = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
    print(found.stdout.splitlines()[-1])
    return found.stdout


@pytest.mark.skipif(KOMBU is None, reason="KOMBU_SDIST names no source of kombu")
def test_the_tests_of_kombu_itself(shared: Server, one: Any, tmp_path: Path) -> None:
    assert KOMBU is not None
    shutil.copytree(Path(KOMBU) / "t", tmp_path / "t")
    # The tests expect keys with the names of queues, and replies within a second.
    (tmp_path / "conftest.py").write_text(
        "import zeitset.celery as z\nz.Channel.queue_prefix = ''\nz.Transport.brpop_timeout = 1\n"
    )
    files = sorted((tmp_path / "t" / "integration").glob("test_redis*.py"))
    for file in files:
        file.write_text(file.read_text().replace("redis://", "zeitset://"))
    chosen = f"not ({INSIDE})" + ("" if SLOW else f" and ({SHORT})")
    run(tmp_path, {"REDIS_6379_TCP": str(shared.port)}, "-k", chosen, *map(str, files))


@pytest.mark.skipif(CELERY is None, reason="CELERY_SDIST names no source of Celery")
def test_the_tests_of_celery_itself(shared: Server, one: Any, tmp_path: Path) -> None:
    assert CELERY is not None
    shutil.copytree(Path(CELERY) / "t", tmp_path / "t")
    (tmp_path / "conftest.py").write_text('import zeitset.celery\n\npytest_plugins = ["celery.contrib.pytest"]\n')
    server = f"127.0.0.1:{shared.port}"
    environment = {"TEST_BROKER": f"zeitset://{server}/0", "TEST_BACKEND": f"redis://{server}/0"}
    environment |= {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(shared.port)}
    files = ["test_inspect"] + (["test_tasks", "test_canvas", "test_group_chains"] if SLOW else [])
    names = [f"t/integration/{file}.py" for file in files]
    run(tmp_path, environment, "-k", f"not ({OTHERWISE})", *names)
