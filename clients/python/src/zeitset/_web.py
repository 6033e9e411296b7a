"""Common code of the middlewares: the keys of clients, and the response to a denied request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, TypeVar, cast

from ._limits import Check, Checks

L = TypeVar("L")
CHECKS = "zeitset.checks"
"""The name under which a request stores the checks of all its limits."""
PROBLEM = "application/problem+json"
_TYPES = "https://iana.org/assignments/http-problem-types#"


def network_of(host: str, ipv6: int = 56) -> str:
    """Returns an IPv4 address, or the network of an IPv6 address. Returns any other host unchanged, for example a Unix
    socket."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((int(address), ipv6), strict=False))
    return str(address)


def as_list(kind: type[L], limiters: L | Iterable[L], fits: Callable[[L], object]) -> list[L]:
    found: list[L] = [limiters] if isinstance(limiters, kind) else list(cast("Iterable[L]", limiters))
    if not found:
        raise ValueError("no limiters")
    for limiter in found:
        fits(limiter)
    return found


def key_of(found: object) -> str | None:
    if found is not None and not isinstance(found, str):
        raise TypeError(f"a key is a str or None, not {found!r}")
    return found


def all_of(check: Check | Checks) -> tuple[Check, ...]:
    return check.checks if isinstance(check, Checks) else (check,)


def refusal(check: Check | Checks) -> dict[str, Any]:
    """Returns the problem document (RFC 9457). The status is 503 if Redis was not available, and 429 if a limit
    denied the request."""
    if check.error:
        kind, status = "temporary-reduced-capacity", 503
        title = "Request cannot be satisfied due to temporary server capacity constraints"
    else:
        kind, status = "quota-exceeded", 429
        title = "Request cannot be satisfied as assigned quota has been exceeded"
    violated = [each.policy.name for each in all_of(check) if not each.allowed]
    return {"type": _TYPES + kind, "title": title, "status": status, "violated-policies": violated}


def body_of(problem: dict[str, Any]) -> bytes:
    return json.dumps(problem).encode()
