"""Rate limits for ASGI applications: `app = RateLimit(app, limiter)`, or `app.add_middleware(RateLimit, limiters=limiter)`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Union

from . import _web
from ._limits import headers
from ._web import CHECKS, PROBLEM, all_of, body_of, client_key, key_of, refusal
from .asyncio import Check, Checks, Limiter, check_all

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Who = Union[str, None, Awaitable[Union[str, None]]]


def client_network(ipv6: int = 56, proxies: int = 0) -> Callable[[Scope], str]:
    """Returns a key function. The key is the client's IPv4 address, or the first `ipv6` bits of its IPv6 address,
    because one client may have all addresses of an IPv6 network.

    `proxies`: the number of your own proxies, each of which adds an address to X-Forwarded-For. All clients without an
    address share one key.
    """

    def key(scope: Scope) -> str:
        headers = [value for name, value in scope.get("headers", ()) if name == b"x-forwarded-for"]
        return client_key((scope.get("client") or (None,))[0], b",".join(headers).decode("latin1"), proxies, ipv6)

    return key


class RateLimitHeaders:
    """Adds RateLimit header fields to responses. The fields describe the limits that were checked during the request,
    for example by the dependency for FastAPI."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or CHECKS in scope:
            return await self.inside(scope, receive, send)
        checks: list[Check] = []
        scope[CHECKS] = checks

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start" and checks:
                fields = [(name.lower().encode(), value.encode()) for name, value in headers(checks).items()]
                names = {name for name, _ in fields}
                others = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
                message = {**message, "headers": [*others, *fields]}
            await send(message)

        await self.inside(scope, receive, send_with_fields)

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class RateLimit(RateLimitHeaders):
    """Asks the limiters before each request, and responds 429 if one of them denies. Units are taken from all limiters,
    or from none.

    `key(scope)` returns the key of the client, or None if the request is not limited. Responses carry RateLimit header
    fields. `block`, such as `Limiter(r, "blocked", "1/10m")`: a client that a limit denies stays blocked for the window
    of this limiter.
    """

    def __init__(
        self,
        app: App,
        limiters: Limiter | Iterable[Limiter],
        key: Callable[[Scope], Who] = client_network(),
        cost: int = 1,
        block: Limiter | None = None,
    ) -> None:
        super().__init__(app)
        self.limiters = as_list(limiters, cost)
        self.key = key
        self.cost = cost
        self.block = block

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = await name_of(self.key(scope)) if scope["type"] == "http" else None
        if key is None:
            return await self.app(scope, receive, send)
        check = await ask(self.limiters, key, self.cost, self.block, scope)
        if check.allowed:
            return await self.app(scope, receive, send)
        problem = refusal(check)
        body = body_of(problem)
        length = (b"content-length", str(len(body)).encode())
        fields = [(b"content-type", PROBLEM.encode()), length]
        await send({"type": "http.response.start", "status": problem["status"], "headers": fields})
        await send({"type": "http.response.body", "body": body})


def as_list(limiters: Limiter | Iterable[Limiter], cost: int) -> list[Limiter]:
    return _web.as_list(Limiter, limiters, lambda limiter: limiter.calls.fits(cost))


async def name_of(key: Who) -> str | None:
    return key_of(await key if inspect.isawaitable(key) else key)


async def ask(limiters: list[Limiter], key: str, cost: int, block: Limiter | None, scope: Scope) -> Check | Checks:
    """Checks the limits. Stores the results in `scope`, for the header fields of the response."""
    check: Check | Checks
    if len(limiters) == 1 and block is None:
        check = await limiters[0].check(key, cost)
    else:
        check = await check_all(*((limiter, key, cost) for limiter in limiters), block=block)
    scope.setdefault(CHECKS, []).extend(all_of(check))
    return check


def fields_of(scope: Scope) -> dict[str, str]:
    """Returns the header fields of all limits that this request has checked."""
    return headers(scope[CHECKS])
