"""Rate limits for single routes of Flask: `@app.get("/search")`, then `@rate_limit(limiter)`.

For the whole application: `app.wsgi_app = zeitset.wsgi.RateLimit(app.wsgi_app, limiter)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import Response, abort, after_this_request, current_app, request

from . import Limiter
from ._limits import headers
from ._web import CHECKS, PROBLEM, body_of, client_key, key_of, refusal
from .wsgi import as_list, ask

P = ParamSpec("P")
R = TypeVar("R")


def network() -> str:
    return client_key(request.remote_addr)


def rate_limit(
    limiters: Limiter | Iterable[Limiter],
    key: Callable[[], str | None] = network,
    cost: int = 1,
    block: Limiter | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Responds 429 if a limiter denies. `key()` returns the key of the client, or None if the request is not limited.
    `key` may use `flask.request` and `session`. `block` is that of `zeitset.wsgi.RateLimit`."""
    asked = as_list(limiters, cost)

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            who = key_of(key())
            if who is not None:
                check = ask(asked, who, cost, block, request.environ)
                after_this_request(_with_fields)
                if not check.allowed:
                    problem = refusal(check)
                    abort(Response(body_of(problem), problem["status"], content_type=PROBLEM))
            found: R = current_app.ensure_sync(view)(*args, **kwargs)
            return found

        return limited

    return decorate


def _with_fields(response: Response) -> Response:
    """Writes the header fields of all limits that this request was checked against. Replaces fields that were written
    before."""
    response.headers.update(headers(request.environ[CHECKS]))
    return response
