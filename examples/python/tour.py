"""A tour of Zeitset with its Python client: python tour.py [redis://localhost:6379]"""

import sys
from time import sleep

from redis import Redis
from zeitset import Board, ExpiringSet, Job, Limiter, Queue, Retry, Worker

url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379"
r = Redis.from_url(url)
r.delete("tour:otp", "tour:seen", "search:tour", "knock:tour", "tour:mails", "tour:medals")


def one_time_codes():
    print("One-time codes: three at most, five minutes each")
    codes = ExpiringSet(r, "tour:otp")
    for code in ["493811", "882015", "120374", "700126"]:
        print(f"  {code}:", "refused" if codes.add(code, ttl="5m", cap=3) is None else "stored")
    for code in ["882015", "882015"]:
        # The removal is the test. If two clients send the same code, only one of them removes it.
        print(f"  {code}:", "right" if codes.remove(code) else "wrong")


def seen_before():
    print("Seen before? Remembered for 60 days")
    seen = ExpiringSet(r, "tour:seen")
    for message in ["message-4711", "message-4711"]:
        print(f"  {message}:", "new" if seen.add(message, ttl="60d", only="new") else "seen")


def rate_limit():
    print("Rate limit: five searches a minute")
    searches = Limiter(r, "search", "5/1m")
    while (check := searches.check("tour")).allowed:
        print(f"  allowed, {check.remaining} remaining")
    print("  denied")
    for name, value in check.headers().items():
        print(f"    {name}: {value}")
    knocks = Limiter(r, "knock", "1/250ms")
    knocks.check("tour")
    while not (check := knocks.check("tour")).allowed:
        sleep(check.retry_after)
    print("  allowed after the wait")


def queue():
    print("Queue: by priority, delayed, one failure")
    mails = Queue(r, "tour:mails")
    mails.push("welcome-ann", id="mail:1")
    mails.push("reminder-bob", id="mail:2", delay=0.5, priority=10)
    mails.push("password-eve", id="mail:3", priority=-10)

    def send(job: Job):
        if job.payload == "welcome-ann" and job.attempt == 1:
            print(f"  {job.payload}: failed, returned")
            raise Retry("no answer", after=0)
        print(f"  {job.payload}: done" + (f" at attempt {job.attempt}" if job.attempt > 1 else ""))
        if job.payload == "reminder-bob":
            worker.stop()

    worker = Worker(r, "tour:mails", send, concurrency=1)
    worker.run()
    stats = mails.stats()
    print(f"  {stats['pushed']} pushed, {stats['acked']} done, {stats['nacked']} returned")


def leaderboard():
    print("Leaderboard: gold, then silver, then bronze")
    medals = Board(r, "tour:medals", "gold", "silver", "bronze")
    medals.create()
    medals.set_many({"Japan": (20, 12, 13), "USA": (40, 44, 42), "China": (40, 27, 24)})
    for entry in medals.range():
        print(" ", entry.rank, entry.member, *entry.values)
    print("  one more gold for China: rank", medals.incr("China", {"gold": 1}).rank)


one_time_codes()
seen_before()
rate_limit()
queue()
leaderboard()
