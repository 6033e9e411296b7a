"""A web service that serves each client so often and no oftener: python web.py [redis://localhost:6379] [port]

The client is who its X-Api-Key says, or else its address. LIMIT and WINDOW (seconds) may be set in the environment.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from redis import Redis

from zeitset import check

url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379"
port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
limit_per_window = int(os.environ.get("LIMIT", 10))
window = int(os.environ.get("WINDOW", 60))
r = Redis.from_url(url, protocol=3)


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # which keeps connections open

    def do_GET(self):
        client = self.headers.get("X-Api-Key") or self.client_address[0]
        limit = check(r, f"web:{client}", limit_per_window, f"{window}s")
        if limit.allowed:
            status, answer = 200, {"hello": client, "charged_until_ms": limit.charged_until_ms}
        else:
            status, answer = 429, {"title": "Too many requests", "status": 429}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        for name, value in limit.headers("default", window).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json" if limit.allowed else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", port), Service)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
