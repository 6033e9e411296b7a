"""Throttles that replace the throttles of Django REST framework. They are exact, and keep their counts in Redis, not in
Django's cache. They need these Django settings:

`REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": ["zeitset.rest_framework.UserRateThrottle"], "DEFAULT_THROTTLE_RATES": {"user": "100/day"}}`
and `ZEITSET_URL = "redis://localhost:6379"`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import redis
from django.conf import settings
from rest_framework import throttling
from rest_framework.settings import api_settings

from . import Check, Limiter
from ._limits import OnError
from ._web import CHECKS, client_key, warn_once

__all__ = ["AnonRateThrottle", "RateThrottle", "ScopedRateThrottle", "UserRateThrottle"]


@lru_cache
def _client(url: str) -> Any:
    return redis.Redis.from_url(url)


@lru_cache
def _limiter(client: Any, scope: str, limit: int, seconds: int, on_error: OnError) -> Limiter:
    return Limiter(client, scope, f"{limit}/{seconds}s", on_error=on_error, prefix="throttle:")


class RateThrottle(throttling.SimpleRateThrottle):
    """A base class like SimpleRateThrottle. A subclass defines `scope` and `get_cache_key(request, view)`. This method
    returns the key to limit.

    A denied request takes no units. `client`: the redis-py client, by default one for `settings.ZEITSET_URL`.
    `on_error`: what to do if Redis is away.
    """

    client: Any = None
    on_error: OnError = "raise"

    def allow_request(self, request: Any, view: Any) -> bool:
        if self.rate is None:
            return True
        key = self.get_cache_key(request, view)
        if key is None:
            return True
        if self.num_requests < 1:
            return False
        client = _client(settings.ZEITSET_URL) if self.client is None else self.client
        self.checked: Check = _limiter(client, self.scope or type(self).__name__, self.num_requests, self.duration, self.on_error).check(key)
        # The middleware zeitset.wsgi.RateLimitHeaders writes the header fields of these checks.
        request.META.setdefault(CHECKS, []).append(self.checked)
        return self.checked.allowed

    def get_ident(self, request: Any) -> str:
        """Returns the key of a client without a user. The framework would take the whole X-Forwarded-For header if
        NUM_PROXIES is not set, so a client could choose its key."""
        forwarded: str | None = request.META.get("HTTP_X_FORWARDED_FOR")
        proxies: int | None = api_settings.NUM_PROXIES
        if proxies is None and forwarded:
            warn_once("NUM_PROXIES of Django REST framework is not set; it counts as 1, because there is an X-Forwarded-For header")
        return client_key(request.META.get("REMOTE_ADDR"), forwarded, 1 if proxies is None else proxies)

    def wait(self) -> float | None:
        """Returns the seconds for Retry-After."""
        if self.num_requests < 1:
            return float(self.duration)
        return None if self.checked.error else self.checked.retry_after


class AnonRateThrottle(RateThrottle, throttling.AnonRateThrottle):
    """Limits clients that are not logged in, each by its address."""


class UserRateThrottle(RateThrottle, throttling.UserRateThrottle):
    """Limits each user. Limits a client without a user by its address."""


class ScopedRateThrottle(throttling.ScopedRateThrottle, RateThrottle):
    """Limits views with a `throttle_scope`."""
