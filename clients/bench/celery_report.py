"""Writes the page of Celery's figures: celery_report.py FIGURES VERSION-OF-THE-SERVER"""

from __future__ import annotations

import json
import platform
import statistics
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROWS = {
    "publish": "published tasks a second",
    "prefork": "empty tasks a second, `-P prefork -c 2`",
    "threads": "empty tasks a second, `-P threads -c 2`",
    "p50": "delay beyond `countdown=1`, median, ms",
    "p99": "delay beyond `countdown=1`, 99th percentile, ms",
    "waiting": "memory of the server for a waiting task, bytes",
    "idle": "commands a second of ten idle workers",
}

lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]


def cell(broker: str, row: str) -> str:
    found = sorted(line[row] for line in lines if line["broker"] == broker and row in line)
    digits = 1 if row in ("p50", "p99", "idle") else 0
    median = f"{statistics.median(found):,.{digits}f}"
    return median if len(found) == 1 else f"{median} ({found[0]:,.{digits}f} … {found[-1]:,.{digits}f})"


rounds = sum("publish" in line for line in lines) // 2
print(f"""# Celery

This page compares Celery {version("celery")} (kombu {version("kombu")}) with `zeitset://` and with `redis://` as its broker.

On {date.today()}, the workers and Redis {sys.argv[2]} without persistence ran on one machine with 2 cores, with Python
{platform.python_version()}. Each figure is the median of {rounds} rounds, with the lowest and the highest figure in brackets. In each
round, the brokers take turns. All tasks are published before a worker starts; the first task starts the clock, and
the last task stops it. `make bench-clients` repeats the measurement.

| | `zeitset://` | `redis://` |
|---|--:|--:|""")
for row, label in ROWS.items():
    print(f"| {label} | {cell('zeitset', row)} | {cell('redis', row)} |")
