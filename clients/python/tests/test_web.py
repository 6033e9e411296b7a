"""The ASGI middleware and the FastAPI dependency."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import redis.asyncio

from zeitset import CostTooHigh
from zeitset.asgi import RateLimit, RateLimitHeaders, client_network
from zeitset.asyncio import Limiter, check_all

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


def problem(kind: str, violated: list[str]) -> dict[str, Any]:
    titles = {
        "quota-exceeded": (429, "Request cannot be satisfied as assigned quota has been exceeded"),
        "temporary-reduced-capacity": (503, "Request cannot be satisfied due to temporary server capacity constraints"),
    }
    status, title = titles[kind]
    uri = f"https://iana.org/assignments/http-problem-types#{kind}"
    return {"type": uri, "title": title, "status": status, "violated-policies": violated}


def test_the_middleware_answers_429(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            app = RateLimit(application, Limiter(r, "web", "2/1m"))
            status, fields, body = await get(app)
            assert (status, body, fields["x-app"]) == (200, b"hello", "1")
            assert fields["ratelimit-policy"] == '"web";q=2;w=60' and fields["ratelimit"] == '"web";r=1;t=60'
            assert (await get(app))[0] == 200
            status, fields, body = await get(app)
            assert status == 429 and json.loads(body) == problem("quota-exceeded", ["web"])
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


def test_a_client_that_exceeded_stays_blocked(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            web, block = Limiter(r, "web", "2/1m"), Limiter(r, "block", "1/10m")
            app = RateLimit(application, web, key=lambda scope: scope["client"][0], block=block)
            for _ in range(2):
                assert (await get(app, "eve"))[0] == 200
            status, fields, body = await get(app, "eve")
            assert (status, json.loads(body)) == (429, problem("quota-exceeded", ["web", "block"]))
            assert 60 < int(fields["retry-after"]) <= 600, "the wait is that of the block"
            assert (await get(app, "bob"))[0] == 200
            await web.reset("eve")
            other = RateLimit(application, Limiter(r, "web", "2/1m"), key=app.key, block=Limiter(r, "block", "1/10m"))
            assert (await get(app, "eve"))[0] == 429, "although units are available"
            status, fields, body = await get(other, "eve")
            assert (status, json.loads(body)) == (429, problem("quota-exceeded", ["block"]))
            assert 60 < int(fields["retry-after"]) <= 600, "other processes see the block"
            await block.reset("eve")
            assert (await get(app, "eve"))[0] == 200
            with pytest.raises(ValueError, match="forced"):
                await check_all((web, "eve"), force=True, block=block)

    asyncio.run(main())


def test_a_limit_that_could_not_be_asked_is_503() -> None:
    async def main() -> None:
        away = redis.asyncio.Redis(port=free_port(), retry=NO_RETRY)
        status, fields, body = await get(RateLimit(application, Limiter(away, "web", "2/1m", on_error="deny")))
        assert status == 503 and "ratelimit" not in fields
        assert json.loads(body) == problem("temporary-reduced-capacity", ["web"])
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

    blocks = fastapi.Depends(rate_limit(Limiter(r, "minute", "1/1m"), lambda _: "ann", block=Limiter(r, "block", "1/10m")))

    @app.get("/block", dependencies=[blocks])  # type: ignore[untyped-decorator, unused-ignore]
    def block() -> str:
        return "hello"

    with testclient.TestClient(app) as client:
        answer = client.get("/", headers={"x-api-key": "ann"})
        assert (answer.status_code, answer.json(), answer.headers["ratelimit"]) == (200, "hello", '"web";r=0;t=60')
        refused = client.get("/", headers={"x-api-key": "ann"})
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert client.get("/").status_code == 200, "no key, no limit"
        assert [client.get("/block").status_code for _ in range(2)] == [200, 429]
        blocked = client.get("/block")
        assert blocked.json()["detail"]["violated-policies"][-1] == "block" and int(blocked.headers["retry-after"]) > 60


@pytest.mark.parametrize(
    "host, key",
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2ff:a:b:c:d", "2001:db8:1:200::/56"),
        ("2001:db8:1:200::1", "2001:db8:1:200::/56"),
        ("2001:db8:1:300::1", "2001:db8:1:300::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("/run/socket", "unknown"),
    ],
)
def test_the_addresses_of_one_network_are_one_client(host: str, key: str) -> None:
    assert client_network()({"client": (host, 1)}) == key


def test_other_networks_and_no_address() -> None:
    assert client_network(ipv6=64)({"client": ("2001:db8:1:2ff::1", 1)}) == "2001:db8:1:2ff::/64"
    assert client_network()({"client": None}) == "unknown"


def test_one_network_passes_the_middleware_as_one_client(shared: Server, one: Any) -> None:
    async def main() -> list[int]:
        async with redis.asyncio.Redis(port=shared.port) as r:
            app = RateLimit(application, Limiter(r, "web", "2/1m"))
            return [(await get(app, f"2001:db8::{number}"))[0] for number in range(1, 5)]

    assert asyncio.run(main()) == [200, 200, 429, 429]


def test_a_key_may_be_awaited_and_must_be_text(shared: Server, one: Any) -> None:
    async def user(scope: Any) -> str:
        await asyncio.sleep(0)
        return "ann"

    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            app = RateLimit(application, Limiter(r, "web", "1/1m"), key=user)
            assert [(await get(app))[0] for _ in range(2)] == [200, 429]
            number: Any = lambda scope: 7
            with pytest.raises(TypeError, match="key"):
                await get(RateLimit(application, Limiter(r, "web", "1/1m"), key=number))

    asyncio.run(main())
    assert one.keys() == [b"web:ann"]


def test_two_middlewares_tell_both_limits(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            app = RateLimit(RateLimit(application, Limiter(r, "inner", "1/1m")), Limiter(r, "outer", "9/1h"))
            _, fields, _ = await get(app)
            assert fields["ratelimit"] == '"outer";r=8;t=3600, "inner";r=0;t=60' and fields["x-app"] == "1"
            status, fields, body = await get(app)
            assert status == 429 and json.loads(body)["violated-policies"] == ["inner"]
            assert fields["ratelimit-policy"] == '"outer";q=9;w=3600, "inner";q=1;w=60' and int(fields["retry-after"]) <= 60

    asyncio.run(main())


@pytest.mark.parametrize("outside", [RateLimitHeaders, None])
def test_the_fields_of_dependencies(shared: Server, one: Any, outside: Any) -> None:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    from fastapi.responses import PlainTextResponse

    from zeitset.fastapi import rate_limit

    async def user(request: Any) -> str:
        return "ann"

    r = redis.asyncio.Redis(port=shared.port)
    app = fastapi.FastAPI()
    if outside is not None:
        app.add_middleware(outside)
    two = [fastapi.Depends(rate_limit(Limiter(r, name, "9/1m"), key=user)) for name in ("a", "b")]
    tight = fastapi.Depends(rate_limit(Limiter(r, "c", "1/1m"), key=user))

    @app.get("/", dependencies=two)  # type: ignore[untyped-decorator, unused-ignore]
    def root() -> str:
        return "hello"

    @app.get("/own", dependencies=two)  # type: ignore[untyped-decorator, unused-ignore]
    def own() -> Any:
        return PlainTextResponse("hello", headers={"x-own": "1"})

    @app.get("/error", dependencies=two)  # type: ignore[untyped-decorator, unused-ignore]
    def error() -> str:
        raise fastapi.HTTPException(404)

    @app.get("/tight", dependencies=[*two, tight])  # type: ignore[untyped-decorator, unused-ignore]
    def tightly() -> str:
        return "hello"

    with testclient.TestClient(app) as client:
        assert client.get("/").headers["ratelimit"] == '"a";r=8;t=60, "b";r=8;t=60'
        if outside is not None:
            answer = client.get("/own")
            assert answer.headers["ratelimit"] == '"a";r=7;t=60, "b";r=7;t=60' and answer.headers["x-own"] == "1"
            answer = client.get("/error")
            assert (answer.status_code, answer.headers["ratelimit-policy"]) == (404, '"a";q=9;w=60, "b";q=9;w=60')
        assert client.get("/tight").status_code == 200
        refused = client.get("/tight")
        assert refused.status_code == 429 and refused.headers["ratelimit"].count(";r=") == 3
        assert refused.json()["detail"] == problem("quota-exceeded", ["c"])
