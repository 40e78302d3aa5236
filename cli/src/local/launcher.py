"""Runs the AWS emulator in a session of its own, so that it outlives the terminal.

It enforces the policies of the functions' roles, of queues and of buckets. Some of the emulator's
private settings are turned to what suits that, and a busy local stack; when a later version no longer
has them, it runs as it is, only slower, or without permissions.
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

try:
    from ministack.core import iam_actions, iam_evaluator

    # It speaks plain HTTP, on loopback alone, and the deployment's queues and buckets refuse that: every
    # request counts as one by TLS.
    pin_request_origin = iam_evaluator.pin_request_origin
    iam_evaluator.pin_request_origin = lambda source_ip, _by_tls: pin_request_origin(source_ip, True)

    # On AWS the permission to send, delete or hide messages is also that for batches of them.
    extract_iam_action = iam_actions.extract_iam_action

    def without_batch(*request):
        action = extract_iam_action(*request)
        return action.removesuffix("Batch") if action and action.startswith("sqs:") else action

    iam_actions.extract_iam_action = without_batch
    # Read when its server is imported.
    os.environ["AUTH"] = "true"
except (ImportError, AttributeError) as missing:
    print(f"emulator enforces no permissions: {missing!r}", file=sys.stderr)

# Not `ministack.__main__`: importing that runs the server, and again after it was stopped.
from ministack.app import main  # noqa: E402

sys.exit(main())
