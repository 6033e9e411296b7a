"""Payloads: JSON, or the bytes as they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Union


class Codec(Protocol):
    def dumps(self, payload: Any) -> bytes: ...
    def loads(self, raw: bytes) -> Any: ...


CodecName = Union[Literal["json", "bytes"], Codec]


@dataclass(frozen=True)
class Undecodable:
    """What `get` and `peek` show in the place of a payload that the codec cannot read."""

    raw: bytes
    error: Exception


def decoded(codec: Codec, raw: bytes) -> Any:
    try:
        return codec.loads(raw)
    except Exception as error:
        return Undecodable(raw, error)


def traced(codec: Codec, body: bytes, traceparent: str) -> bytes:
    """A payload with the `traceparent` of what pushes it."""
    if not isinstance(codec, Json):
        raise TypeError("a traceparent travels with JSON payloads only")
    line = traceparent.encode() + b"\n"
    if not _TRACEPARENT.fullmatch(line):
        raise ValueError(f"not a traceparent: {traceparent!r}")
    return line + body


def traceparent_of(codec: Codec, raw: bytes) -> str | None:
    line = _TRACEPARENT.match(raw) if isinstance(codec, Json) else None
    return line[0][:-1].decode() if line else None


def _refuse(number: str) -> Any:
    raise ValueError(f"{number} is not JSON")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse).decode


_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\n")
"""A line that tells who pushed the job (W3C Trace Context). No JSON begins like that."""


class Json:
    def dumps(self, payload: Any) -> bytes:
        return _encode(payload).encode()

    def loads(self, raw: bytes) -> Any:
        line = _TRACEPARENT.match(raw)
        return _decode(raw[line.end() if line else 0 :].decode())


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
