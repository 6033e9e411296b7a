"""Rate limits for WSGI applications, for example of Flask and Django: `application = RateLimit(application,
limiter)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from . import Check, Checks, Limiter, _web, check_all
from ._limits import headers
from ._web import CHECKS, PROBLEM, all_of, body_of, client_key, key_of, refusal

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


def client_network(ipv6: int = 56, proxies: int = 0) -> Callable[[Environ], str]:
    """Returns a key function. The key is the client's IPv4 address, or the first `ipv6` bits of its IPv6 address,
    because one client may have all addresses of an IPv6 network.

    `proxies`: the number of your own proxies, each of which adds an address to X-Forwarded-For. All clients without an
    address share one key.
    """
    return lambda environ: client_key(environ.get("REMOTE_ADDR"), environ.get("HTTP_X_FORWARDED_FOR"), proxies, ipv6)


class RateLimitHeaders:
    """Adds RateLimit header fields to responses. The fields describe the limits that were checked during the request,
    for example by a throttle or a decorator."""

    def __init__(self, app: App) -> None:
        self.app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if CHECKS in environ:
            return self.inside(environ, start_response)
        checks: list[Check] = []
        environ[CHECKS] = checks

        def start(status: str, fields: list[tuple[str, str]], *more: Any) -> Any:
            if checks:
                written = headers(checks)
                names = {name.lower() for name in written}
                fields = [*(field for field in fields if field[0].lower() not in names), *written.items()]
            return start_response(status, fields, *more)

        return self.inside(environ, start)

    def inside(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self.app(environ, start_response)


class RateLimit(RateLimitHeaders):
    """Asks the limiters before each request, and responds 429 if one of them denies. Units are taken from all limiters,
    or from none.

    `key(environ)` returns the key of the client, or None if the request is not limited. Responses carry RateLimit
    header fields. `block`, such as `Limiter(r, "blocked", "1/10m")`: a client that a limit denies stays blocked for the
    window of this limiter.
    """

    def __init__(
        self,
        app: App,
        limiters: Limiter | Iterable[Limiter],
        key: Callable[[Environ], str | None] = client_network(),
        cost: int = 1,
        block: Limiter | None = None,
    ) -> None:
        super().__init__(app)
        self.limiters = as_list(limiters, cost)
        self.key = key
        self.cost = cost
        self.block = block

    def inside(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        key = key_of(self.key(environ))
        if key is None:
            return self.app(environ, start_response)
        check = ask(self.limiters, key, self.cost, self.block, environ)
        if check.allowed:
            return self.app(environ, start_response)
        problem = refusal(check)
        body = body_of(problem)
        status = HTTPStatus(problem["status"])
        start_response(f"{status.value} {status.phrase}", [("Content-Type", PROBLEM), ("Content-Length", str(len(body)))])
        return [body]


def as_list(limiters: Limiter | Iterable[Limiter], cost: int) -> list[Limiter]:
    return _web.as_list(Limiter, limiters, lambda limiter: limiter.calls.fits(cost))


def ask(limiters: list[Limiter], key: str, cost: int, block: Limiter | None, environ: Environ) -> Check | Checks:
    """Checks the limits. Stores the results in `environ`, for the header fields of the response."""
    check: Check | Checks
    if len(limiters) == 1 and block is None:
        check = limiters[0].check(key, cost)
    else:
        check = check_all(*((limiter, key, cost) for limiter in limiters), block=block)
    environ.setdefault(CHECKS, []).extend(all_of(check))
    return check
