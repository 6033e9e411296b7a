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

On {date.today().isoformat()}, the workers and Redis {sys.argv[2]} without persistence ran on one machine with {os.cpu_count()} cores, with Python {platform.python_version()}.
Each worker runs ten jobs at once. All jobs are pushed before the measurement, which lasts from the beginning of the
first job to the end of the last job. Each figure is the median of {rounds} rounds, with the slowest and the fastest round in
brackets. In each round, the libraries take turns. If each job waits 10 ms, a worker can do at most 1,000 jobs a second.
`make bench-clients` repeats the measurement.

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
The row of arq shows how often arq polls (every 0.5 s, its default `poll_delay`), not how fast it works: with a shorter
`poll_delay`, arq does more jobs. RQ runs ten worker processes (`rq worker-pool -n 10`), and each process forks for
every job. With one command, a worker of Zeitset claims as many jobs as it has free slots. The same round trip sends the
ACKs of earlier jobs."""
)
