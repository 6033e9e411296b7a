"""Rate limits for ASGI applications: `app = RateLimit(app, limiter)`, or `app.add_middleware(RateLimit, limiters=limiter)`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from .asyncio import Check, Checks, Limiter, check_all

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def client_address(scope: Scope) -> str | None:
    """Of the connection. Behind a proxy, let the server set it from a header that only your proxy can set."""
    client = scope.get("client")
    return client[0] if client else "unknown"


class RateLimit:
    """Asks the limiters before each request, all or nothing; answers 429 where they deny.

    `key(scope)` says who asks, and None that the request is not limited. Responses carry RateLimit header fields.
    """

    def __init__(
        self,
        app: App,
        limiters: Limiter | Iterable[Limiter],
        key: Callable[[Scope], str | None] = client_address,
        cost: int = 1,
    ) -> None:
        self.app = app
        self.limiters = as_list(limiters)
        self.key = key
        self.cost = cost
        for limiter in self.limiters:
            limiter.calls.fits(cost)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = self.key(scope) if scope["type"] == "http" else None
        if key is None:
            return await self.app(scope, receive, send)
        check = await ask(self.limiters, key, self.cost)
        fields = [(name.lower().encode(), value.encode()) for name, value in check.headers().items()]

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *fields]}
            await send(message)

        if check.allowed:
            return await self.app(scope, receive, send_with_fields)
        status, title = refusal(check)
        body = json.dumps({"title": title, "status": status}).encode()
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", b"application/problem+json"), length]
        await send_with_fields({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def as_list(limiters: Limiter | Iterable[Limiter]) -> list[Limiter]:
    found = [limiters] if isinstance(limiters, Limiter) else list(limiters)
    if not found:
        raise ValueError("no limiters")
    return found


async def ask(limiters: list[Limiter], key: str, cost: int) -> Check | Checks:
    if len(limiters) == 1:
        return await limiters[0].check(key, cost)
    return await check_all(*((limiter, key, cost) for limiter in limiters))


def refusal(check: Check | Checks) -> tuple[int, str]:
    """A limit that could not be asked is not a client's fault."""
    return (503, "Rate limits are not available") if check.error else (429, "Too many requests")
