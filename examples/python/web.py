"""A web service with a limit for each client: python web.py [redis://localhost:6379] [port]

The header X-Api-Key identifies a client. Without this header, its address does. The environment variables LIMIT and
WINDOW (seconds) set the limit. With an ASGI framework, `zeitset.asgi.RateLimit` does all of this.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from redis import Redis
from zeitset import Limiter

url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379"
port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
rate = f"{os.environ.get('LIMIT', 10)}/{os.environ.get('WINDOW', 60)}s"
limiter = Limiter(Redis.from_url(url), "default", rate)


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # HTTP/1.1 keeps connections open

    def do_GET(self):
        client = self.headers.get("X-Api-Key") or self.client_address[0]
        check = limiter.check(client)
        if check.allowed:
            status, answer = 200, {"hello": client, "charged_until_ms": check.charged_until_ms}
        else:
            status, answer = 429, {"title": "Too many requests", "status": 429}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        for name, value in check.headers().items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json" if check.allowed else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", port), Service)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
