"""The codecs of payloads: JSON, or unchanged bytes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Union

from ._time import Duration, duration, milliseconds


class Codec(Protocol):
    def dumps(self, payload: Any) -> bytes: ...
    def loads(self, raw: bytes) -> Any: ...


CodecName = Union[Literal["json", "bytes"], Codec]


@dataclass(frozen=True)
class Undecodable:
    """A payload that the codec cannot read. `get` and `peek` show it in place of the payload."""

    raw: bytes
    error: Exception


def decoded(codec: Codec, raw: bytes) -> Any:
    try:
        return codec.loads(raw)
    except Exception as error:
        return Undecodable(raw, error)


class Header(NamedTuple):
    """The header of a job, which is stored before its payload."""

    traceparent: str | None = None
    timeout_ms: int | None = None


def headed(codec: Codec, body: bytes, traceparent: str | None, timeout: Duration | None) -> bytes:
    """If there is a traceparent or a timeout, puts a header before the payload."""
    lines = ""
    if traceparent is not None:
        if not _TRACEPARENT.fullmatch(traceparent):
            raise ValueError(f"not a traceparent: {traceparent!r}")
        lines += f"traceparent: {traceparent}\n"
    if timeout is not None:
        if milliseconds(timeout) < 1:
            raise ValueError("timeout must be at least 1 ms")
        lines += f"timeout: {duration(timeout)}\n"
    if lines and not isinstance(codec, Json):
        raise TypeError("a traceparent and a timeout travel with JSON payloads only")
    return lines.encode() + body


def header_of(codec: Codec, raw: bytes) -> Header:
    """Reads the header of a job. Ignores unknown lines. Raises ValueError if the timeout is not a duration."""
    found = _HEADER.match(raw) if isinstance(codec, Json) else None
    if found is None:
        return Header()
    lines = dict(line.split(": ", 1) for line in found[0].decode("latin1").split("\n")[:-1])
    traceparent, timeout = lines.get("traceparent"), lines.get("timeout")
    is_good = traceparent is not None and _TRACEPARENT.fullmatch(traceparent)
    return Header(traceparent if is_good else None, None if timeout is None else milliseconds(timeout))


def _refuse(number: str) -> Any:
    raise ValueError(f"{number} is not JSON")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse).decode


_HEADER = re.compile(rb"(?:[a-z][a-z-]*: [^\n]*\n)+")
"""A header: lines of a name and a value. No JSON text begins like this."""
_TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""The syntax of a traceparent (W3C Trace Context)."""


class Json:
    def dumps(self, payload: Any) -> bytes:
        return _encode(payload).encode()

    def loads(self, raw: bytes) -> Any:
        header = _HEADER.match(raw)
        return _decode(raw[header.end() if header else 0 :].decode())


class Bytes:
    def dumps(self, payload: Any) -> bytes:
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise TypeError(f"the codec is 'bytes', and the payload is a {type(payload).__name__}")
        return bytes(payload)

    def loads(self, raw: bytes) -> Any:
        return raw


def codec(name: CodecName) -> Codec:
    if isinstance(name, str):
        if name not in ("json", "bytes"):
            raise ValueError(f"codec is 'json', 'bytes', or an object with dumps and loads, not {name!r}")
        return Json() if name == "json" else Bytes()
    return name
