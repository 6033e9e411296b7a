"""Commands, and the functions that read their replies. This module does no I/O; `_run` sends the commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

T = TypeVar("T")
Word = Union[str, bytes, int, float]
_ONCE = frozenset(
    "ZRL.CHECK ZRL.MCHECK ZRL.REFUND DEL EVAL ZEXP.ADD ZEXP.EXPIRE ZEXP.PERSIST ZEXP.REM ZEXP.POP"
    " ZLB.SET ZLB.INCR ZLB.REM ZLB.REMRANGE ZLB.MERGE ZLB.CLEAR ZQ.CANCEL ZQ.RESCHEDULE ZQ.REDRIVE ZQ.CLEAN ZQ.HOLD".split()
)
"""The commands that are sent at most once: a second one would change something else, or get another reply."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """A command, and how to read its reply. For a pipeline of your own: `pipe.execute_command(*call.args)`, then
    `call.parse(reply)`."""

    args: tuple[Word, ...]
    parse: Callable[[Any], T]
    recover: Callable[[BaseException], T] | None = None
    """Returns the result of a call that failed because Redis is away. None: the error is raised."""

    @property
    def name(self) -> str:
        return str(self.args[0])

    @property
    def only_once(self) -> bool:
        """Whether the command is sent at most once. If its reply gets lost, the library raises OutcomeUnknown."""
        return self.args[0] in _ONCE

    @property
    def words(self) -> tuple[Word, ...]:
        """Returns `args` as they are sent. Text becomes bytes here, so that text which has no bytes (a lone surrogate) is
        an error of the caller, and not of the connection."""
        name, *others = self.args
        return (name, *(encoded(word) if isinstance(word, str) else word for word in others))


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
