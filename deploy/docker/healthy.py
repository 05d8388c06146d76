"""Ends with 0 when the service of this container says that it is ready."""  # noqa: INP001 - a script

import http.client
import os
import sys

PORT = int(os.environ.get("MUSTER_HTTP_PORT", "8080"))
TIMEOUT_S = 3

connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=TIMEOUT_S)
try:
    connection.request("GET", "/readyz")
    sys.exit(connection.getresponse().status != http.client.OK)
except OSError:
    sys.exit(1)
