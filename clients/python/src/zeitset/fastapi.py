"""Rate limits for single routes: `@app.get("/search", dependencies=[Depends(rate_limit(limiter))])`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from fastapi import HTTPException, Request, Response

from .asgi import as_list, ask, client_address, refusal
from .asyncio import Check, Checks, Limiter


def address(request: Request) -> str | None:
    return client_address(request.scope)


def rate_limit(
    limiters: Limiter | Iterable[Limiter],
    key: Callable[[Request], str | None] = address,
    cost: int = 1,
) -> Callable[[Request, Response], Awaitable[Check | Checks | None]]:
    """A dependency that raises 429 where the limiters deny. `key(request)` says who asks, None: not limited.

    Its value is the check, such as for a refund.
    """
    asked = as_list(limiters)
    for limiter in asked:
        limiter.calls.fits(cost)

    async def depend(request: Request, response: Response) -> Check | Checks | None:
        who = key(request)
        if who is None:
            return None
        check = await ask(asked, who, cost)
        if not check.allowed:
            status, title = refusal(check)
            raise HTTPException(status, title, headers=check.headers())
        response.headers.update(check.headers())
        return check

    # FastAPI reads the annotations, which are strings here.
    depend.__annotations__ = {"request": Request, "response": Response}
    return depend
