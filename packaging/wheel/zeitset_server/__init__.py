"""The Zeitset module for Redis and Valkey, as a file of this package. For tests and development. The package contains
no redis-server."""

from __future__ import annotations

import os

__all__ = ["module_path"]


def module_path() -> str:
    """Returns the path for `redis-server --loadmodule PATH`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "zeitset.so")
