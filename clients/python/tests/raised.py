"""All exceptions that code can raise: the built-in ones, and some that nobody expects."""

from __future__ import annotations

import builtins
import inspect
import random
import string
from typing import Any


class Unreadable(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Silent(BaseException):
    """It is no Exception, and has no text."""


class TwoFaced(Exception):
    """Its class cannot be read."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


def raised() -> dict[str, BaseException]:
    """Returns an instance of each built-in exception, and some others, by name."""
    found: dict[str, BaseException] = {}
    for name, kind in vars(builtins).items():
        if inspect.isclass(kind) and issubclass(kind, BaseException):
            found[name] = _instance(kind)
    found |= {"Unreadable": Unreadable(), "Silent": Silent(), "TwoFaced": TwoFaced()}
    for _ in range(5):
        name = "".join(random.choices(string.ascii_letters, k=8))
        base = random.choice([Exception, BaseException, OSError, ValueError])
        found[name] = type(name, (base,), {})(random.randbytes(5))
    return found


def _instance(kind: type[BaseException]) -> BaseException:
    if kind.__name__ in ("BaseExceptionGroup", "ExceptionGroup"):
        return kind("a group", [ValueError("one of it")])
    if issubclass(kind, UnicodeDecodeError):
        return kind("utf-8", b"\xff", 0, 1, "no reason")
    if issubclass(kind, UnicodeEncodeError):
        return kind("utf-8", "x", 0, 1, "no reason")
    if issubclass(kind, UnicodeTranslateError):
        return kind("x", 0, 1, "no reason")
    return kind("no reason")
