"""Payloads: JSON, or the bytes as they are."""

from __future__ import annotations

import json
from typing import Any, Literal, Protocol, Union


class Codec(Protocol):
    def dumps(self, payload: Any) -> bytes: ...
    def loads(self, raw: bytes) -> Any: ...


CodecName = Union[Literal["json", "bytes"], Codec]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class Json:
    def dumps(self, payload: Any) -> bytes:
        return _encode(payload).encode()

    def loads(self, raw: bytes) -> Any:
        return _decode(raw.decode())


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
