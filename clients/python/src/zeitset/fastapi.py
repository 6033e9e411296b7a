"""Rate limits for single routes: `@app.get("/search", dependencies=[Depends(rate_limit(limiter))])`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from fastapi import HTTPException, Request, Response

from ._web import refusal
from .asgi import Who, as_list, ask, client_network, fields_of, name_of
from .asyncio import Check, Checks, Limiter


def network(request: Request) -> str:
    return client_network()(request.scope)


def rate_limit(
    limiters: Limiter | Iterable[Limiter],
    key: Callable[[Request], Who] = network,
    cost: int = 1,
    block: Limiter | None = None,
) -> Callable[[Request, Response], Awaitable[Check | Checks | None]]:
    """Returns a dependency that raises 429 if a limiter denies. `key(request)` returns the key of the client, or None
    if the request is not limited. `block` is that of `zeitset.asgi.RateLimit`.

    The dependency returns the result of the check. With this result, a route can refund the units. If a route returns
    its own Response or raises, the header fields are lost, unless the application has a middleware of `zeitset.asgi`:
    `app.add_middleware(RateLimitHeaders)`.
    """
    asked = as_list(limiters, cost)

    async def depend(request: Request, response: Response) -> Check | Checks | None:
        who = await name_of(key(request))
        if who is None:
            return None
        check = await ask(asked, who, cost, block, request.scope)
        fields = fields_of(request.scope)
        if not check.allowed:
            problem = refusal(check)
            raise HTTPException(problem["status"], problem, headers=fields)
        response.headers.update(fields)
        return check

    # FastAPI reads the annotations. Without this line, they would be strings.
    depend.__annotations__ = {"request": Request, "response": Response}
    return depend
