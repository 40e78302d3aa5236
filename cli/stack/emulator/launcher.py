"""Runs the AWS emulator in a session of its own, so that it outlives the terminal.

It enforces the policies of the functions' roles, of queues and of buckets. Some of the emulator's
private settings are turned to what suits that, and a busy local stack, and AWS's limits are held in front of its
services (`strict.py`); when a later version no longer has them, it runs as it is, only slower, without
permissions, or without limits.
"""

import contextlib
import contextvars
import fcntl
import json
import os
import queue
import select
import socketserver
import sys
import termios
import threading
import time

os.setsid()

# Small writes go out at once: Nagle's algorithm and delayed acknowledgements cost an invocation 40 ms.
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

try:
    from ministack.core.lambda_runtime import ProvidedWorker

    from ministack.services import cloudwatch_logs as stored_logs

    # The emulator waits a while for what an invocation logs. What its reader brings later is shown with the
    # next invocation of that process, or never: the ledger would miss it. But what a function has written
    # before its response is in its pipe by then, so all of that is read, and nothing is waited for.
    #
    # And it stores what an invocation logs when that has ended. On AWS a line is stored as it comes, whatever
    # becomes of the function: dispatch counts what is delivered, deletes its message, and goes on listening.
    reading = threading.Lock()

    def store(worker, lines):
        name = (worker.config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{worker.func_name}"
        group, now = stored_logs._log_groups.get(name), int(time.time() * 1000)
        if group is None:
            return False
        empty = {"events": [], "uploadSequenceToken": "1", "creationTime": now, "firstEventTimestamp": None}
        empty |= {"lastEventTimestamp": None, "lastIngestionTime": None}
        stream = group["streams"].setdefault(f"under-way/{worker._generation}-{id(worker)}", empty)
        event = {"timestamp": now, "ingestionTime": now}
        stored_logs._append_log_events(stream, [{**event, "message": line} for line in lines])
        return True

    def is_stored(worker, lines):
        context = getattr(worker, "invoked_in", None)
        if not (worker._current_request_id and context):
            return False
        try:
            return context.copy().run(store, worker, lines)
        except Exception as failed:
            print(f"not stored at once: {failed!r}", file=sys.stderr)
            return False

    invoke = ProvidedWorker.invoke

    def invoke_by_account(worker, *args, **more):
        # Whose account and region the function's logs are in.
        worker.invoked_in = contextvars.copy_context()
        return invoke(worker, *args, **more)

    def pump(worker, stream, lines):
        ready = select.poll()
        ready.register(stream, select.POLLIN)
        begun = b""
        while not stream.closed:
            ready.poll()
            with reading:
                read = os.read(stream.fileno(), 65_536)
                *ended, begun = (begun + read).split(b"\n")
                if not read:
                    ended.append(begun)
                    stream.close()
                said = [line.decode(errors="replace").rstrip("\r") for line in ended if line]
                if said and is_stored(worker, said):
                    continue
                for line in said:
                    if lines.full():
                        with contextlib.suppress(queue.Empty):
                            lines.get_nowait()
                    lines.put_nowait(line)

    def is_read(stream):
        with reading:
            return stream.closed or fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4)) == bytes(4)

    def drain(worker, *_, **__):
        process, last_look = worker._proc, time.monotonic() + 5
        while process and not is_read(process.stdout) and time.monotonic() < last_look:
            time.sleep(0.0005)
        return worker._drain_stderr()

    assert callable(ProvidedWorker._pump_output) and callable(ProvidedWorker._drain_stderr)
    assert callable(ProvidedWorker._drain_stderr_bounded) and callable(stored_logs._append_log_events)
    ProvidedWorker._pump_output = pump
    ProvidedWorker.invoke = invoke_by_account
    ProvidedWorker._drain_stderr_bounded = drain
except (ImportError, AttributeError, AssertionError) as missing:
    print(f"emulator runs untuned: {missing!r}", file=sys.stderr)

try:
    from ministack.services import cloudwatch_logs

    # It gives the first ten thousand lines and says nothing of the rest, where AWS gives pages.
    first_of_log = cloudwatch_logs._filter_log_events
    LINES_AT_ONCE = 10_000

    def page_of_log(asked):
        since, given = map(int, asked.get("nextToken", "0:0").split(":"))
        answer = first_of_log({**asked, "startTime": since} if since else asked)
        status, headers, body = answer
        if status != 200:
            return answer
        found = json.loads(body)
        lines = found["events"]
        found["events"] = lines[given:]
        if len(lines) >= LINES_AT_ONCE and found["events"]:
            last = lines[-1]["timestamp"]
            found["nextToken"] = f"{last}:{sum(line['timestamp'] == last for line in lines)}"
        return status, headers, json.dumps(found).encode()

    cloudwatch_logs._filter_log_events = page_of_log
except (ImportError, AttributeError) as missing:
    print(f"emulator shows the first lines of a log alone: {missing!r}", file=sys.stderr)

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

try:
    import strict  # noqa: F401
except (ImportError, AttributeError, KeyError) as missing:
    print(f"emulator takes what AWS refuses: {missing!r}", file=sys.stderr)

# Not `ministack.__main__`: importing that runs the server, and again after it was stopped.
from ministack.app import main  # noqa: E402

sys.exit(main())
