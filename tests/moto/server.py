"""moto's server for the ports' contract: tests/tests/moto.rs starts it.

It takes a free port of this machine alone and writes its number to standard output. It ends when its
standard input does, and so with the tests, however they end.
"""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

MOTO = DomainDispatcherApplication(create_backend_app)
CALL = threading.Lock()


def one_at_a_time(environ, start_response):
    """Answers one call after the other: moto reads and writes an item in two steps, between which another
    call would break its condition. A receive may wait for a message, and holds up nothing."""
    if environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage":
        return MOTO(environ, start_response)
    with CALL:
        return MOTO(environ, start_response)


def end_with_input():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    print(server.port, flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    server.serve_forever()
