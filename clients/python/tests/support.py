"""Real servers with the module, and workers in threads."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Event_
from threading import Thread
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zeitset import Event, Worker

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MODULE = Path(os.environ.get("ZEITSET_MODULE", TARGET / "release" / "libzeitset.so"))
REDIS_SERVER = os.environ.get("REDIS_SERVER", "redis-server")
PATIENCE = 20.0
NO_RETRY: Any = Retry(NoBackoff(), 0)


def until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
    return found


def free_port() -> int:
    """Returns a free port below the ports that the system assigns to connections. The port plus 10,000, which a node of
    a cluster also uses, is below these ports, too."""
    while True:
        port = random.randint(11_000, 22_000)
        with socket.socket() as probe, socket.socket() as bus:
            try:
                probe.bind(("127.0.0.1", port))
                bus.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


def certificate(folder: Path) -> dict[str, str]:
    """Makes a self-signed certificate of 127.0.0.1. Returns the settings with which a server uses it."""
    made = f"-newkey rsa:2048 -nodes -keyout {folder}/key -out {folder}/cert -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", "req", "-x509", *made.split()], check=True, capture_output=True)
    return {"tls-cert-file": f"{folder}/cert", "tls-key-file": f"{folder}/key", "tls-ca-cert-file": f"{folder}/cert"}


def as_options(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def missing() -> str | None:
    if shutil.which(REDIS_SERVER) is None:
        return f"{REDIS_SERVER} is not installed"
    return None if MODULE.exists() else f"{MODULE} is not built"


class Server:
    """A redis-server for one test, which keeps all data in an append-only file."""

    def __init__(self, folder: Path, *options: str, module: bool = True) -> None:
        self.port = free_port()
        self._folder = folder / str(self.port)
        self._folder.mkdir(parents=True)
        self._options = options
        self._module = module
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *more: str) -> None:
        loaded = ["--loadmodule", str(MODULE)] if self._module else []
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""] if self._module else []
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [REDIS_SERVER, *place, *durable, *loaded, *self._options, *more],
                stdout=log,
                stderr=log,
            )
        until(self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def client(self, **options: Any) -> Any:
        return redis.Redis(port=self.port, **options)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            with redis.Redis(port=self.port, socket_timeout=1) as r:
                return bool(r.ping())
        except redis.RedisError:
            return False


@contextmanager
def clustered(folder: Path, primaries: int, *options: str, replicas: bool = False) -> Iterator[list[Server]]:
    """Starts primaries with equal shares of the slots, and with `replicas` one replica of each. The list begins with
    the primaries."""
    count = primaries * (2 if replicas else 1)
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", *options)
    buses = [free_port() for _ in range(count)]
    servers = [Server(folder, *options, "--cluster-port", str(bus)) for bus in buses]
    clients = [server.client() for server in servers]
    share = -(-16384 // primaries)
    for number, client in enumerate(clients[:primaries]):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * share, min((number + 1) * share, 16384) - 1)
    for server, bus in zip(servers[1:], buses[1:]):
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
    until(lambda: all(b"cluster_known_nodes:%d" % count in cluster_info(client) for client in clients))
    for primary, replica in zip(clients, clients[primaries:]):
        replica.execute_command("CLUSTER", "REPLICATE", node_id(primary))
    until(lambda: all(b"cluster_state:ok" in cluster_info(client) for client in clients))
    until(lambda: all(client.info("replication")["master_link_status"] == "up" for client in clients[primaries:]))
    try:
        yield servers
    finally:
        for client, server in zip(clients, servers):
            client.close()
            server.kill()


def cluster_info(client: Any) -> bytes:
    reply: bytes = client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)
    return reply if isinstance(reply, bytes) else repr(reply).replace("'", "").replace(": ", ":").encode()


def node_id(client: Any) -> str:
    reply = client.execute_command("CLUSTER", "MYID")
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def move(key: str, old: Server, new: Server, others: Sequence[Server] = ()) -> None:
    """Moves the slot of a key, and the key, as resharding does."""
    with old.client() as here, new.client() as there:
        slot, target = here.execute_command("CLUSTER", "KEYSLOT", key), node_id(there)
        there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(here))
        here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
        if here.exists(key):
            here.execute_command("MIGRATE", "127.0.0.1", new.port, key, 0, 5000)
        for server in (new, old, *others):
            with server.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target)


class Watched:
    """A worker in a thread, and its events."""

    def __init__(self, worker: Worker, events: list[Event]) -> None:
        self.worker = worker
        self.events = events
        self.error: BaseException | None = None
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events if event.kind not in ("claimed", "connected")]

    def stop(self) -> None:
        while self.thread.is_alive():
            self.worker.stop()
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive(), "the worker does not stop"

    def _work(self) -> None:
        try:
            asyncio.run(self.worker.serve())
        except BaseException as error:
            self.error = error


@contextmanager
def working(client: Any, queues: str | list[str], handler: Callable[..., Any], **options: Any) -> Iterator[Watched]:
    events: list[Event] = []
    options.setdefault("grace", 5)
    watched = Watched(Worker(client, queues, handler, on_event=events.append, **options), events)
    try:
        until(lambda: watched.worker.state == "running" or not watched.thread.is_alive())
        yield watched
    finally:
        watched.stop()


class Proxy:
    """A proxy between a client and a server. It holds replies back, replaces them with garbage, or cuts connections."""

    def __init__(self, server_port: int) -> None:
        self.target = server_port
        """The server's port for new connections."""
        self._flowing = Event_()
        self._flowing.set()
        self._held_by = b""
        self._lost_by = b""
        self._losing = False
        self._halves = False
        self._to_reset: set[socket.socket] = set()
        self.garbage: dict[bytes, bytes] = {}
        """Maps bytes of a command to a reply. The next chunk of data that contains these bytes gets the reply, once."""
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._flowing.set()
        self.cut()

    def client(self, **options: Any) -> Any:
        return redis.Redis(port=self.port, **options)

    def hold(self, command: bytes = b"") -> None:
        """From the next `command` on, passes commands to the server, but holds replies back."""
        self._held_by = command
        if not command:
            self._flowing.clear()

    def lose(self, command: bytes) -> None:
        """Passes the next `command` to the server, and drops its connection before the reply."""
        self._lost_by = command

    def halve(self, command: bytes) -> None:
        """Passes the next `command` to the server, and drops its connection after half of the reply."""
        self._lost_by, self._halves = command, True

    def reset(self) -> None:
        """Resets all connections, as load balancers do with idle ones: their peers get RST instead of FIN."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            try:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._to_reset.add(each)
                each.shutdown(socket.SHUT_RD)  # ends `_pump`, which closes the socket
            except OSError:
                pass

    @property
    def holds(self) -> bool:
        return not self._flowing.is_set()

    def let_go(self) -> None:
        self._held_by = b""
        self._flowing.set()

    def cut(self) -> None:
        """Drops all connections, with the replies that are held back."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the server is away
                near.close()
                continue
            self._sockets += (near, far)
            Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_command: bool) -> None:
        try:
            while chunk := source.recv(65536):
                if not is_command:
                    self._flowing.wait()
                elif self._held_by and self._held_by in chunk:
                    self._flowing.clear()
                if is_command and self._lost_by and self._lost_by in chunk:
                    self._lost_by, self._losing = b"", True
                elif not is_command and self._losing:
                    if self._halves:
                        sink.sendall(chunk[: len(chunk) // 2])
                    self._losing = self._halves = False
                    break
                found = next((each for each in list(self.garbage) if is_command and each in chunk), None)
                if found is not None:
                    source.sendall(self.garbage.pop(found))
                else:
                    sink.sendall(chunk)
        except OSError:
            pass
        for each in (source, sink):
            try:
                if each in self._to_reset:
                    each.close()
                else:
                    each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
