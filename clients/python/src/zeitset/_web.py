"""Common code of the middlewares: the keys of clients, and the response to a denied request."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, TypeVar, cast

from ._limits import Check, Checks

L = TypeVar("L")
log = logging.getLogger("zeitset")
CHECKS = "zeitset.checks"
"""The name under which a request stores the checks of all its limits."""
PROBLEM = "application/problem+json"
_TYPES = "https://iana.org/assignments/http-problem-types#"


UNKNOWN = "unknown"
"""The key of all clients without an address, for example behind a Unix socket. They share one limit."""
_warned: set[str] = set()


def client_key(peer: str | None, forwarded: str | None = None, proxies: int = 0, ipv6: int = 56) -> str:
    """Returns the key of a client: its IPv4 address, or the network of its IPv6 address.

    `peer` is the address at the other end of the connection. `proxies` is the number of your own proxies. Each proxy has
    added an address to the end of `forwarded` (X-Forwarded-For). A client can write anything before these addresses, so
    they are ignored. `clients/identity-cases.json` has test cases for Python and Node.js.
    """
    if proxies and forwarded:
        hops = forwarded.split(",")
        if len(hops) >= proxies and (key := _network_of(hops[-proxies], ipv6)) is not None:
            return key
        warn_once("X-Forwarded-For has no address of a client; the address of the proxy is limited in its place")
    key = _network_of(peer or "", ipv6)
    if key is None:
        warn_once(f"a client has no IP address (behind a Unix socket, for example); all such clients share the limit {UNKNOWN!r}")
    return UNKNOWN if key is None else key


def _network_of(text: str, ipv6: int) -> str | None:
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    try:
        address = ip_address((match[1] or match[2] or match[3]).partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((int(address), ipv6), strict=False))
    return str(address)


_ADDRESS = re.compile(r"\[([^\]]+)\](?::[0-9]+)?|([^:\[\]]+)(?::[0-9]+)?|([^\[\]]*:[^\[\]]*:[^\[\]]*)")
"""An address: in brackets with or without a port, without colons with or without a port, or a plain IPv6 address."""


def warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)


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
