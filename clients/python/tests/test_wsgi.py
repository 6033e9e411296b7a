"""The WSGI middleware, Flask, and the throttles for Django REST framework."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
import redis

from zeitset import CostTooHigh, Limiter
from zeitset.wsgi import RateLimit, RateLimitHeaders, client_network

from .support import NO_RETRY, Server, free_port
from .test_web import problem


def application(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain"), ("RateLimit", "mine")])
    return [b"hello"]


def get(app: Any, client: str = "10.0.0.1") -> tuple[str, dict[str, str], bytes]:
    environ: dict[str, Any] = {"REMOTE_ADDR": client, "QUERY_STRING": ""}
    setup_testing_defaults(environ)
    begun: list[Any] = []
    answer = validator(app)(environ, lambda status, fields, *_: begun.append((status, fields)))  # type: ignore[arg-type]
    body = b"".join(answer)
    answer.close()  # type: ignore[attr-defined]
    assert len({name.lower() for name, _ in begun[0][1]}) == len(begun[0][1]), "each field once"
    return begun[0][0], {name.lower(): value for name, value in begun[0][1]}, body


def test_the_middleware_answers_429(one: Any) -> None:
    app = RateLimit(application, Limiter(one, "web", "2/1m"))
    status, fields, body = get(app)
    assert (status, body, fields["ratelimit"]) == ("200 OK", b"hello", '"web";r=1;t=60')
    assert get(app)[0] == "200 OK"
    status, fields, body = get(app)
    assert status == "429 Too Many Requests" and json.loads(body) == problem("quota-exceeded", ["web"])
    assert 59 <= int(fields["retry-after"]) <= 60 and fields["content-type"] == "application/problem+json"
    assert get(app, "10.0.0.2")[0] == "200 OK"


def test_several_limits_keys_and_two_middlewares(one: Any) -> None:
    limiters = [Limiter(one, "minute", "1/1m"), Limiter(one, "day", "9/1d")]
    app = RateLimit(RateLimit(application, limiters, key=lambda environ: "ann"), Limiter(one, "outer", "9/1h"))
    assert get(app)[1]["ratelimit"] == '"outer";r=8;t=3600, "minute";r=0;t=60, "day";r=8;t=86400'
    status, fields, body = get(app)
    assert status.startswith("429") and json.loads(body)["violated-policies"] == ["minute"] and '"day";r=8;' in fields["ratelimit"]
    assert get(RateLimit(application, limiters, key=lambda environ: None))[1]["ratelimit"] == "mine", "not limited"
    assert get(RateLimitHeaders(application))[1]["ratelimit"] == "mine", "nothing was asked"
    number: Any = lambda environ: 7
    with pytest.raises(TypeError, match="key"):
        get(RateLimit(application, limiters, key=number))
    with pytest.raises(CostTooHigh):
        RateLimit(application, limiters, cost=2)
    with pytest.raises(ValueError):
        RateLimit(application, [])


def test_a_client_that_exceeded_stays_blocked(one: Any) -> None:
    web, block = Limiter(one, "web", "1/1m"), Limiter(one, "block", "1/10m")
    app = RateLimit(application, web, block=block)
    assert get(app)[0] == "200 OK"
    status, fields, body = get(app)
    assert status.startswith("429") and json.loads(body) == problem("quota-exceeded", ["web", "block"])
    assert 60 < int(fields["retry-after"]) <= 600, "the wait is that of the block"
    assert get(app, "10.0.0.2")[0] == "200 OK"
    web.reset("10.0.0.1")
    assert get(app)[0].startswith("429"), "although units are available"
    other = RateLimit(application, Limiter(one, "web", "1/1m"), block=Limiter(one, "block", "1/10m"))
    assert json.loads(get(other)[2]) == problem("quota-exceeded", ["block"]), "other processes see the block"
    block.reset("10.0.0.1")
    assert get(app)[0] == "200 OK"


def test_a_limit_that_could_not_be_asked_is_503() -> None:
    away = redis.Redis(port=free_port(), retry=NO_RETRY)
    status, fields, body = get(RateLimit(application, Limiter(away, "web", "2/1m", on_error="deny")))
    assert status == "503 Service Unavailable" and json.loads(body) == problem("temporary-reduced-capacity", ["web"])
    assert get(RateLimit(application, Limiter(away, "web", "2/1m", on_error="allow")))[0] == "200 OK"


def test_networks() -> None:
    assert client_network()({"REMOTE_ADDR": "2001:db8:1:2ff::1"}) == "2001:db8:1:200::/56"
    assert client_network(ipv6=64)({"REMOTE_ADDR": "2001:db8:1:2ff::1"}) == "2001:db8:1:2ff::/64"
    assert client_network()({}) == "unknown"


def test_routes_of_flask(one: Any) -> None:
    flask = pytest.importorskip("flask")
    from zeitset.flask import rate_limit

    app = flask.Flask(__name__)
    app.wsgi_app = RateLimit(app.wsgi_app, Limiter(one, "web", "9/1m"))

    @app.get("/search")  # type: ignore[untyped-decorator, unused-ignore]
    @rate_limit(Limiter(one, "search", "1/1m"))
    def search() -> Any:
        return flask.Response("found", headers={"x-own": "1"})

    @app.get("/open")  # type: ignore[untyped-decorator, unused-ignore]
    @rate_limit(Limiter(one, "open", "1/1m"), key=lambda: flask.request.headers.get("x-api-key"))
    def opened(**_: Any) -> str:
        return "open"

    @app.get("/block")  # type: ignore[untyped-decorator, unused-ignore]
    @rate_limit(Limiter(one, "minute", "1/1m"), block=Limiter(one, "block", "1/10m"))
    def blocks() -> str:
        return "open"

    client = app.test_client()
    assert [client.get("/block").status_code for _ in range(2)] == [200, 429]
    assert int(client.get("/block").headers["retry-after"]) > 60
    answer = client.get("/search")
    assert (answer.status_code, answer.text, answer.headers["x-own"]) == (200, "found", "1")
    assert answer.headers.getlist("ratelimit") == ['"web";r=5;t=60, "search";r=0;t=60']
    refused = client.get("/search")
    assert refused.status_code == 429 and json.loads(refused.text) == problem("quota-exceeded", ["search"])
    assert 55 < int(refused.headers["retry-after"]) <= 60 and refused.content_type == "application/problem+json"
    assert [client.get("/open").status_code for _ in range(3)] == [200] * 3, "no key, no limit"
    keyed = [client.get("/open", headers={"x-api-key": "ann"}).status_code for _ in range(2)]
    assert keyed == [200, 429]


DJANGO = """
import sys, django
from django.conf import settings

settings.configure(
    DEBUG=False, SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, ZEITSET_URL=sys.argv[1],
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework"],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_THROTTLE_CLASSES": [f"zeitset.rest_framework.{name}RateThrottle" for name in ("Anon", "User", "Scoped")],
        "DEFAULT_THROTTLE_RATES": {"anon": "3/day", "user": "100/min", "uploads": "1/hour", "search": "9/s"},
    },
)
django.setup()
from django.core.wsgi import get_wsgi_application
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView
from zeitset.rest_framework import RateThrottle
from zeitset.wsgi import RateLimitHeaders

class View(APIView):
    def get(self, request):
        return Response("hello")

class Uploads(View):
    throttle_scope = "uploads"

class Burst(RateThrottle):
    rate = "1/min"
    def get_cache_key(self, request, view):
        return request.query_params.get("who")

class Bursts(View):
    throttle_classes = [Burst]

class Never(RateThrottle):
    rate = "0/day"
    def get_cache_key(self, request, view):
        return "ann"

class Nobody(View):
    throttle_classes = [Never]

urlpatterns = [path("", View.as_view()), path("uploads", Uploads.as_view()), path("bursts", Bursts.as_view())]
factory = APIRequestFactory()

class User:
    pk, is_authenticated = 7, True

def get(view, path="/", user=None):
    request = factory.get(path)
    if user:
        force_authenticate(request, user)
    return view.as_view()(request)

found = [get(View) for _ in range(4)]
assert [each.status_code for each in found] == [200, 200, 200, 429], found
assert 86000 < int(found[3].headers["Retry-After"]) <= 86400
assert get(View, user=User()).status_code == 200
assert [get(Uploads, user=User()).status_code for _ in range(2)] == [200, 429]
assert [get(Bursts, "/?who=ann").status_code for _ in range(2)] == [200, 429]
assert [get(Bursts).status_code for _ in range(3)] == [200] * 3, "no key, no limit"
found = get(Nobody)
assert (found.status_code, found.headers["Retry-After"]) == (429, "86400"), "as the framework's own throttles"
from rest_framework.settings import api_settings
for proxies, addresses, key in (
    (None, "6.6.6.6, 192.0.2.1:50000", "192.0.2.1"), (1, "[2001:db8::1]:9", "2001:db8::/56"), (0, "6.6.6.6", "127.0.0.1"),
):
    api_settings.NUM_PROXIES = proxies
    assert Burst().get_ident(factory.get("/", HTTP_X_FORWARDED_FOR=addresses)) == key

from django.test import Client
from wsgiref.util import setup_testing_defaults
environ = {"REMOTE_ADDR": "10.9.8.7", "QUERY_STRING": ""}
setup_testing_defaults(environ)
begun = []
RateLimitHeaders(get_wsgi_application())(environ, lambda status, fields, *_: begun.append((status, dict(fields)))).close()
assert begun[0][0] == "200 OK" and begun[0][1]["RateLimit"].startswith('"anon";r=2;t='), begun
import redis
assert b"throttle:anon:throttle_anon_10.9.8.7" in redis.Redis.from_url(sys.argv[1]).keys()
"""


def test_throttles_of_django_rest_framework(shared: Server, one: Any) -> None:
    pytest.importorskip("rest_framework")
    found = subprocess.run([sys.executable, "-c", DJANGO, shared.url], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
