from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support import Server, missing


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if reason := missing():
        pytest.fail(reason)
    server = Server(tmp_path_factory.mktemp("shared"))
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test may stop."""
    server = Server(tmp_path)
    yield server
    server.kill()


@pytest.fixture(params=[(2, False), (3, False), (3, True)], ids=["resp2", "resp3", "decoding"])
def r(request: pytest.FixtureRequest, shared: Server) -> Iterator[Any]:
    """A client with each protocol, and with decoded replies. The results of the library must be the same."""
    protocol, decodes = request.param
    with shared.client(protocol=protocol, decode_responses=decodes) as client:
        client.flushall()
        yield client


@pytest.fixture
def one(shared: Server) -> Iterator[Any]:
    with shared.client() as client:
        client.flushall()
        yield client
