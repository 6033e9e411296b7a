"""clients/shard-cases.json: the key of a job, the same in all languages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zeitset._shards import keys_of, shard_of

from .support import ROOT

CASES: list[dict[str, Any]] = json.loads((ROOT / "clients" / "shard-cases.json").read_text())


def test_a_job_is_in_the_same_shard_in_all_languages() -> None:
    assert len(CASES) > 50
    for case in CASES:
        if case["key"] is None:
            with pytest.raises(ValueError):
                keys_of(case["queue"], case["shards"])
        else:
            keys = keys_of(case["queue"], case["shards"])
            assert keys[shard_of(case["id"], case["group"], case["shards"])] == case["key"], case
