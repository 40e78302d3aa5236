"""Runs the AWS emulator in a session of its own, so that it outlives the terminal.

Two of the emulator's private settings are turned to what suits a busy local stack; when a later
version no longer has them, it runs as it is, only slower.
"""

import os
import socketserver
import sys

os.setsid()

# Small writes go out at once: Nagle's algorithm and delayed acknowledgements cost an invocation 40 ms.
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

try:
    from ministack.core.lambda_runtime import Worker

    # Seconds: wait for a first log line, quiet that ends the log, whole wait.
    assert len(Worker._drain_stderr_bounded.__defaults__) == 3
    Worker._drain_stderr_bounded.__defaults__ = (0.002, 0.001, 0.25)
except (ImportError, AttributeError, AssertionError, TypeError) as missing:
    print(f"emulator runs untuned: {missing!r}", file=sys.stderr)

# Not `ministack.__main__`: importing that runs the server, and again after it was stopped.
from ministack.app import main  # noqa: E402

sys.exit(main())
