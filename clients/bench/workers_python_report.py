"""Prints the page from the lines of JSON: workers_python_report.py FIGURES SERVER_VERSION"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import defaultdict
from datetime import date
from statistics import median

rates: dict[tuple[str, str], list[float]] = defaultdict(list)
with open(sys.argv[1]) as figures:
    for line in figures:
        row = json.loads(line)
        rates[row["library"], row["job"]].append(row["jobs"] / row["seconds"])

rounds = max(len(each) for each in rates.values())
print(
    f"""# Workers in Python

{date.today().isoformat()}, {os.cpu_count()} cores, Python {platform.python_version()}, Redis {sys.argv[2]} without persistence, everything on one machine. Ten jobs at once, pushed
beforehand; the clock runs from the first job that begins to the last one that is done. The median of {rounds} rounds, which took
turns; in brackets the slowest and the fastest. Ten jobs that wait 10 ms cannot be faster than 1,000 a second.
`make bench-clients` repeats it.

| | a job that does nothing, jobs/s | a job that waits 10 ms, jobs/s |
|---|--:|--:|"""
)
for library in dict.fromkeys(library for library, _ in rates):
    cells = []
    for job in ("nothing", "wait"):
        found = rates[library, job]
        cells.append(f"{median(found):,.0f} ({min(found):,.0f} … {max(found):,.0f})")
    print(f"| {library} | {' | '.join(cells)} |")
print(
    """
arq's rows tell how often it polls, not how fast it works: every 0.5 s (its default `poll_delay`) it looks for jobs and takes as many
as it has free slots. With a shorter `poll_delay` it does more. RQ runs ten worker processes (`rq worker-pool -n 10`), each of which forks for a job. A worker of
this library claims as many jobs as it has free slots in one command, and sends the ACKs along with it."""
)
