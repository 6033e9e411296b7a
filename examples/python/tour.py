"""A tour of Zeitset with redis-py: python tour.py [redis://localhost:6379]"""

import sys
from threading import Thread
from time import sleep

from redis import Redis

from zeitset import check, claim

url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379"
r = Redis.from_url(url, protocol=3, decode_responses=True)
run = r.execute_command
r.delete("tour:otp", "tour:seen", "tour:search", "tour:knock", "tour:mails", "tour:medals")


def one_time_codes():
    print("One-time codes: three at most, five minutes each")
    for code in ["493811", "882015", "120374", "700126"]:
        stored = run("ZEXP.ADD", "tour:otp", "CAP", 3, "5m", code)
        print(f"  {code}:", "refused" if stored is None else "stored")
    for code in ["882015", "882015"]:
        # Removing is the test: of two who come with the same code, one gets in.
        print(f"  {code}:", "right" if run("ZEXP.REM", "tour:otp", code) else "wrong")


def seen_before():
    print("Seen before? Remembered for 60 days")
    for message in ["message-4711", "message-4711"]:
        is_new = run("ZEXP.ADD", "tour:seen", "NX", "60d", message)
        print(f"  {message}:", "new" if is_new else "seen")


def rate_limit():
    print("Rate limit: five searches a minute")
    while (limit := check(r, "tour:search", 5, "1m")).allowed:
        print(f"  allowed, {limit.remaining} remaining")
    print("  denied")
    for name, value in limit.headers("search", 60).items():
        print(f"    {name}: {value}")
    check(r, "tour:knock", 1, "250ms")
    while not (limit := check(r, "tour:knock", 1, "250ms")).allowed:
        sleep(limit.retry_after_ms / 1000)
    print("  whoever waits as told is let in")


def worker():
    done = 0
    while done < 3:
        job = claim(r, "tour:mails", lease="30s", block="10s")
        if job is None:
            continue
        if job.payload == "welcome-ann" and job.attempt == 1:
            run("ZQ.NACK", job.queue, job.id, job.token)
            print(f"  {job.payload}: failed, given back")
        elif run("ZQ.ACK", job.queue, job.id, job.token):
            done += 1
            print(f"  {job.payload}: done" + (f" at attempt {job.attempt}" if job.attempt > 1 else ""))


def queue():
    print("Queue: by priority, delayed, one failure")
    run("ZQ.PUSH", "tour:mails", "welcome-ann", "ID", "mail:1")
    run("ZQ.PUSH", "tour:mails", "reminder-bob", "ID", "mail:2", "DELAY", "500ms", "PRIORITY", 10)
    run("ZQ.PUSH", "tour:mails", "password-eve", "ID", "mail:3", "PRIORITY", -10)
    thread = Thread(target=worker)
    thread.start()
    thread.join()
    stats = run("ZQ.STATS", "tour:mails")
    print(f"  {stats['pushed']} pushed, {stats['acked']} done, {stats['nacked']} given back")


def leaderboard():
    print("Leaderboard: gold, then silver, then bronze")
    run("ZLB.CREATE", "tour:medals", "DIM", "gold", "DIM", "silver", "DIM", "bronze")
    run("ZLB.SET", "tour:medals", "Japan", 20, 12, 13, "USA", 40, 44, 42, "China", 40, 27, 24)
    for rank, row in enumerate(run("ZLB.RANGE", "tour:medals", 0, -1, "WITHVALUES")):
        print(" ", rank, *row)
    run("ZLB.INCR", "tour:medals", "China", "gold", 1)
    print("  one more gold for China: rank", run("ZLB.RANK", "tour:medals", "China"))


one_time_codes()
seen_before()
rate_limit()
queue()
leaderboard()
