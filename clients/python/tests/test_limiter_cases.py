"""clients/limiter-cases.json: rates, header fields and decisions of a limiter, the same in all languages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from zeitset import Check, Checks, CostTooHigh, Limiter, Policy, check_all

from .support import ROOT

CASES: dict[str, list[Any]] = json.loads((ROOT / "clients" / "limiter-cases.json").read_text())


def limiter(r: Any, name: str, rate: str, precision: str | None = None, **options: Any) -> Limiter:
    options |= {"exact": True} if precision == "exact" else {"precision": precision}
    return Limiter(r, name, rate, **options)


def test_rates_have_a_limit_and_a_window(one: Any) -> None:
    for rate, limit, window_ms in CASES["rates"]:
        if limit is None:
            with pytest.raises(ValueError):
                Limiter(one, "a", rate)
        else:
            assert Limiter(one, "a", rate).policy == Policy("a", limit, window_ms), rate


@pytest.mark.parametrize("options", CASES["refused"], ids=str)
def test_invalid_options_are_refused(one: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        limiter(one, **options)


@pytest.mark.parametrize("case", CASES["fields"], ids=lambda case: case["about"])
def test_header_fields(case: dict[str, Any]) -> None:
    policies = [Policy(*policy) for policy in case["policies"]]
    checks = case["checks"] or [[True, 0, 0, 0]] * len(policies)
    error = None if case["checks"] else redis.ConnectionError()
    found = tuple(
        Check(policy, allowed, max(free, 0), retry, reset, 0, error, debt=max(-free, 0))
        for policy, (allowed, free, retry, reset) in zip(policies, checks)
    )
    assert Checks(all(check.allowed for check in found), found).headers() == case["fields"]
    if len(found) == 1:
        assert found[0].headers() == case["fields"]


@pytest.mark.parametrize("case", CASES["histories"], ids=lambda case: case["about"])
def test_histories(one: Any, case: dict[str, Any]) -> None:
    limits = {name: limiter(one, **options) for name, options in case["limits"].items()}
    checks: list[tuple[Check, ...]] = []
    for step in case["steps"]:
        before = calls(one)
        for _ in range(step.get("times", 1)):
            try:
                found, returned = act(one, limits, step, checks)
                assert "error" not in step, step
            except (redis.ResponseError, ValueError) as error:
                kinds = {"cost": CostTooHigh, "argument": ValueError}
                kind = kinds.get(step["error"], redis.ResponseError)
                assert isinstance(error, kind) and (step["error"] in kinds or step["error"] in str(error)), step
                found, returned = (), None
        checks.append(found)
        sent = calls(one) - before
        assert sent == step.get("calls", sent) and sent <= step.get("at_most", sent), (step, sent)
        assert returned == step.get("returns", returned), (step, returned)
        if "allowed" in step:
            each = step.get("each", [step["allowed"]] * len(found))
            assert [check.allowed for check in found] == each, step
            assert [check.retry_after_ms > 0 for check in found] == [not allowed for allowed in each], step
            assert [check.remaining for check in found] == step.get("remaining", [check.remaining for check in found]), (step, found)
            assert [check.debt for check in found] == step.get("debt", [0] * len(found)), step


def act(r: Any, limits: dict[str, Limiter], step: dict[str, Any], checks: list[tuple[Check, ...]]) -> tuple[tuple[Check, ...], Any]:
    if "check" in step:
        asks = [(limits[name], key, cost) for name, key, cost in step["check"]]
        if len(asks) == 1:
            own, key, cost = asks[0]
            return (own.check(key, cost),), None
        both = check_all(*asks)
        assert both.allowed == step["allowed"], step
        return both.checks, None
    if "force" in step or "peek" in step:
        name, key, cost = step.get("force") or step["peek"]
        return (limits[name].check(key, cost, force=True) if "force" in step else limits[name].peek(key, cost),), None
    if "refund" in step:
        name, key, units = step["refund"]
        return (), limits[name].refund(key, units, checks[step["of"]][step.get("at", 0)])
    if "reset" in step:
        name, key = step["reset"]
        return (), limits[name].reset(key)
    if "close" in step:
        limits[step["close"]].close()
        return (), None
    reply = r.execute_command(*step["command"])
    if "at" in step:
        reply = reply[step["at"]]
    if reply is True:
        return (), "OK"
    return (), reply.decode() if isinstance(reply, bytes) else reply


def calls(r: Any) -> int:
    stats = r.info("commandstats")
    return sum(stat["calls"] for name, stat in stats.items() if name.startswith("cmdstat_ZRL."))
