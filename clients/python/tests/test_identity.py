"""The keys of clients."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from zeitset import _web, asgi, wsgi

CASES = json.loads((Path(__file__).resolve().parents[2] / "identity-cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_client_has_the_same_key_as_in_node(case: dict[str, Any]) -> None:
    peer, forwarded = case["peer"], case["forwarded"]
    options = {"proxies": case["proxies"], "ipv6": case["ipv6"]}
    assert _web.client_key(peer, forwarded, **options) == case["key"]
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded}
    assert wsgi.client_network(**options)({name: value for name, value in environ.items() if value is not None}) == case["key"]
    headers = [] if forwarded is None else [(b"x-forwarded-for", each.encode()) for each in forwarded.split(",")]
    scope = {"client": None if peer is None else (peer, 1), "headers": headers}
    assert asgi.client_network(**options)(scope) == case["key"]


def test_a_fallback_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_web, "_warned", set())
    with caplog.at_level(logging.WARNING, "zeitset"):
        for _ in range(3):
            assert _web.client_key("unix:") == "unknown"
    assert len(caplog.records) == 1 and "share the limit" in caplog.text
