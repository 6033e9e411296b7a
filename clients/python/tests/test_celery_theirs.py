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
LISTS = " or ".join(
    (
        *("publish_batch", "publish__", "delivery_tag_is_uuid", "put_priority", "purge", "test_delete", "has_queue"),
        *("test_brpop_start", "test_brpop_health", "test_brpop_read", "clears_pause_before", "close_in_poll"),
        *("credit_resumes", "drains_pending_reply", "ack_emulation", "restore_", "qos_re", "keyprefix_transaction"),
        "update_queues_expire",
    )
)
"""These unit tests of kombu expect the commands and keys of a list, or have no place for a second command."""
UNIT = """from unittest.mock import MagicMock
import kombu.transport.redis as theirs
import zeitset.celery as ours
for name in ("QoS", "Channel", "SentinelChannel", "Transport", "SentinelTransport"):
    setattr(theirs, name, getattr(ours, name))
ours.patient = MagicMock()

def pytest_collection_modifyitems(items):
    Client = items[0].module.Client
    Client.execute_command = lambda *words, **options: []
    Client._sconnection.read_response = lambda self: 1
"""
"""The fake server of these tests replies to the commands of the module: there is no job."""
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


@pytest.mark.skipif(KOMBU is None, reason="KOMBU_SDIST names no source of kombu")
def test_the_unit_tests_of_kombu_itself(tmp_path: Path) -> None:
    assert KOMBU is not None
    shutil.copytree(Path(KOMBU) / "t", tmp_path / "t")
    (tmp_path / "conftest.py").write_text(UNIT)
    run(tmp_path, {}, "-k", f"not ({LISTS})", "t/unit/transport/test_redis.py")


@pytest.mark.skipif(CELERY is None, reason="CELERY_SDIST names no source of Celery")
def test_the_tests_of_celery_itself(tmp_path: Path) -> None:
    """One file of them; `make test-celery` runs all."""
    assert CELERY is not None
    command = [sys.executable, "-m", "tests.celery_compare", CELERY, str(tmp_path), "t/integration/test_inspect.py"]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    print(found.stdout)
