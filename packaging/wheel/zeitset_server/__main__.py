"""`python -m zeitset_server` prints the module's path. `python -m zeitset_server run --port 6380` starts a server with
the module. The arguments after `run` are arguments of redis-server."""

from __future__ import annotations

import os
import shutil
import sys

from . import module_path

words = sys.argv[1:]
if not words:
    print(module_path())
elif words[0] == "run":
    server = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
    if server is None:
        sys.exit("zeitset_server: no redis-server or valkey-server is in PATH; REDIS_SERVER names another place")
    sys.stdout.flush()
    # A configuration file must stay the first argument.
    conf, options = (words[1:2], words[2:]) if words[1:] and not words[1].startswith("-") else ([], words[1:])
    os.execvp(server, [server, *conf, "--loadmodule", module_path(), *options])
else:
    sys.exit(f"usage: python -m zeitset_server [run [options of redis-server]]\nunknown: {words[0]}")
