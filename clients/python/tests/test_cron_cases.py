"""clients/cron-cases.json: the meaning of expressions, the same in all languages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zeitset import Cron

from .support import ROOT

CASES: list[dict[str, Any]] = json.loads((ROOT / "clients" / "cron-cases.json").read_text())


@pytest.mark.parametrize("expression, tz", list(dict.fromkeys((case["expression"], case["tz"]) for case in CASES)))
def test_an_expression_means_the_same_in_all_languages(expression: str, tz: str) -> None:
    for case in CASES:
        if (case["expression"], case["tz"]) != (expression, tz):
            continue
        if case["next"] is None:
            with pytest.raises(ValueError):
                Cron("x", expression, tz=tz)
            continue
        cron, times = Cron("x", expression, tz=tz), [case["after"]]
        for _ in case["next"]:
            times.append(cron.next_ms(times[-1]))
        assert times[1:] == case["next"], case
