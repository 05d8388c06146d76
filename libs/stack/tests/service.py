"""A stand-in for a service: says its pid, answers /readyz, ends as it is told to."""

import http.server
import os
import sys


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if os.environ.get("READY", "yes") == "yes" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if "crash" in sys.argv:
    sys.exit("this one always crashes")
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Health).serve_forever()
