"""Commands, and the functions that read their replies. This module does no I/O; `_run` sends the commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

T = TypeVar("T")
Word = Union[str, bytes, int, float]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A command, and how to read its reply. For a pipeline of your own: `pipe.execute_command(*call.args)`, then
    `call.parse(reply)`."""

    args: tuple[Word, ...]
    parse: Callable[[Any], T]
    recover: Callable[[BaseException], T] | None = None
    """Returns the result of a call that failed because Redis is away. None: the error is raised."""


def text(value: Any) -> str:
    """Decodes text. `encoded` turns the result into the same bytes again, even if these are not UTF-8."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def encoded(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


def texts(reply: Any) -> list[str]:
    return [text(item) for item in reply]


def optional_text(reply: Any) -> str | None:
    return None if reply is None else text(reply)


def optional_int(reply: Any) -> int | None:
    return None if reply is None else int(reply)


def integers(reply: Any) -> list[int]:
    return [int(item) for item in reply]


def flag(reply: Any) -> bool:
    return int(reply) == 1


def flags(reply: Any) -> list[bool]:
    return [int(item) == 1 for item in reply]


def nothing(_: Any) -> None:
    return None


def mapping(reply: Any) -> dict[str, Any]:
    """Reads a map of RESP3, or a list of names and values of RESP2. Does not decode the values."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {text(name): value for name, value in pairs}


def pairs(reply: Any) -> list[tuple[Any, Any]]:
    """Reads a list of pairs of RESP3, or a flat list of RESP2."""
    if reply and isinstance(reply[0], (list, tuple)):
        return [(first, second) for first, second in reply]
    return list(zip(reply[::2], reply[1::2]))
