"""The ASGI middleware and the FastAPI dependency."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio

from zeitset import CostTooHigh
from zeitset.asgi import RateLimit
from zeitset.asyncio import Limiter

from .support import NO_RETRY, Server, free_port


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def get(app: Any, client: str = "10.0.0.1", kind: str = "http") -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "client": (client, 1), "path": "/", "headers": []}
    await app(scope, None, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], fields, sent[1]["body"]


def test_the_middleware_answers_429(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            app = RateLimit(application, Limiter(r, "web", "2/1m"))
            status, fields, body = await get(app)
            assert (status, body, fields["x-app"]) == (200, b"hello", "1")
            assert fields["ratelimit-policy"] == '"web";q=2;w=60' and fields["ratelimit"] == '"web";r=1;t=60'
            assert (await get(app))[0] == 200
            status, fields, body = await get(app)
            assert status == 429 and b"Too many requests" in body
            assert 59 <= int(fields["retry-after"]) <= 60 and fields["content-type"] == "application/problem+json"
            assert (await get(app, "10.0.0.2"))[0] == 200
            assert (await get(app, kind="websocket"))[0] == 200

    asyncio.run(main())


def test_the_middleware_asks_several_limits(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            limiters = [Limiter(r, "minute", "1/1m"), Limiter(r, "day", "9/1d")]
            app = RateLimit(application, limiters, key=lambda scope: "ann")
            assert (await get(app))[0] == 200
            status, fields, _ = await get(app)
            assert status == 429 and fields["ratelimit"].startswith('"minute";r=0;t=')
            assert '"day";r=8;' in fields["ratelimit"], "nothing was taken from the other"
            with pytest.raises(CostTooHigh):
                RateLimit(application, limiters, cost=2)

    asyncio.run(main())


def test_a_limit_that_could_not_be_asked_is_503() -> None:
    async def main() -> None:
        away = redis.asyncio.Redis(port=free_port(), retry=NO_RETRY)
        status, fields, _ = await get(RateLimit(application, Limiter(away, "web", "2/1m", on_error="deny")))
        assert status == 503 and "ratelimit" not in fields
        assert (await get(RateLimit(application, Limiter(away, "web", "2/1m", on_error="allow"))))[0] == 200

    asyncio.run(main())


def test_the_dependency_of_fastapi(shared: Server, one: Any) -> None:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    from zeitset.fastapi import rate_limit

    r = redis.asyncio.Redis(port=shared.port)
    app = fastapi.FastAPI()
    depends = fastapi.Depends(rate_limit(Limiter(r, "web", "1/1m"), key=lambda request: request.headers.get("x-api-key")))

    @app.get("/", dependencies=[depends])  # type: ignore[untyped-decorator, unused-ignore]
    def root() -> str:
        return "hello"

    with testclient.TestClient(app) as client:
        answer = client.get("/", headers={"x-api-key": "ann"})
        assert (answer.status_code, answer.json(), answer.headers["ratelimit"]) == (200, "hello", '"web";r=0;t=60')
        refused = client.get("/", headers={"x-api-key": "ann"})
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert client.get("/").status_code == 200, "no key, no limit"
