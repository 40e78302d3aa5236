"""Measures what `gridpost dev` does in bad moments, on one Linux machine, with Python's own library.

    python3 tests/one_machine.py CASE… [--gridpost FILE] [--data DIR] [--events N]

Without a case it runs all. Each prints a line of JSON. `full` fills the disk of DIR, which must be
a small one of its own (`mount -t tmpfs -o size=40m tmpfs DIR`); without DIR it is left out.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

RUNS = []
OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)


async def read_message(reader):
    """Reads a request or a response; returns its first line and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    return head, await reader.readexactly(int(length or 0))


class Endpoint:
    """Answers at any path after the seconds that it begins with, and counts ids and connections."""

    def __init__(self):
        self.seen, self.latency, self.open, self.connections = collections.Counter(), {}, 0, 0

    async def start(self):
        server = await asyncio.start_server(self.serve, "0.0.0.0", 0, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        return self

    def url(self, after, number=1):
        return f"http://127.0.0.{number}:{self.port}/{after}/hook"

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head, body = await read_message(reader)
                events, answer = json.loads(body), b""
                self.open += 1
                code = (events[0].get("data") or {}).get("validationCode")
                if code:
                    answer = json.dumps({"validationResponse": code}).encode()
                else:
                    await asyncio.sleep(float(head.split(b" ")[1].split(b"/")[1]))
                    host = head.partition(b"host: ")[2].partition(b":")[0].decode()
                    for event in events:
                        self.seen[host, event["id"]] += 1
                        self.latency[event["id"]] = time.time() - event["data"]["at"]
                self.open -= 1
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()


class Dev:
    """A `gridpost dev` with topics and event subscriptions: {topic: [endpoint URL]}."""

    def __init__(self, arguments, topics, data=None, flags=(), descriptors=None):
        self.program, self.flags, self.descriptors = arguments.gridpost, flags, descriptors
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.process = None
        RUNS.append(self)
        self.data = pathlib.Path(data) if data else self.home / "data"
        self.idle = []
        destination = lambda url: {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
        subscription = lambda url: {"properties": {"destination": destination(url)}}
        declared = {
            topic: {"eventSubscriptions": {f"sub-{n}": subscription(url) for n, url in enumerate(urls)}}
            for topic, urls in topics.items()
        }
        self.config = self.home / "topics.json"
        self.config.write_text(json.dumps({"topics": declared}))

    async def start(self):
        """Starts it; returns the seconds until it says that it is ready."""
        began = time.time()
        connection = self.home / "local.json"
        connection.unlink(missing_ok=True)
        limits = (self.descriptors,) * 2 if self.descriptors else OPEN_FILES
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        command = [self.program, "--home", self.home, "dev", "--no-demo", "--port", "0"]
        command += ["--data", self.data, "--config", self.config, *self.flags]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GRIDPOST_")}
        with (self.home / "out").open("ab") as out:
            self.process = subprocess.Popen(
                command, env=environment, stdout=out, stderr=out, preexec_fn=limit
            )
        while not connection.exists():
            assert self.process.poll() is None, (self.home / "out").read_text()
            await asyncio.sleep(0.005)
        url = json.loads(connection.read_text())["publishUrl"]
        self.host, self.port = url.removeprefix("http://").split(":")
        self.idle.clear()
        ready = time.time() - began
        self.keys = {}
        return ready

    async def call(self, method, path, body=b"", headers=()):
        """Makes a request; returns the status and the body, 0 if there is no answer."""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(body)}\r\n"
        head += "content-type: application/json\r\n" + "".join(f"{h}\r\n" for h in headers)
        while True:
            is_new = not self.idle
            try:
                if is_new:
                    reader, writer = await asyncio.open_connection(self.host, self.port)
                else:
                    reader, writer = self.idle.pop()
                writer.write(head.encode() + b"\r\n" + body)
                line, answer = await read_message(reader)
                self.idle.append((reader, writer))
                return int(line.split(b" ")[1]), answer
            except (OSError, asyncio.IncompleteReadError):
                # Idle connections are closed after a while.
                if is_new:
                    return 0, b""

    async def publish(self, topic, ids, data=""):
        if topic not in self.keys:
            _, keys = await self.call("POST", f"/topics/{topic}/listKeys")
            self.keys[topic] = json.loads(keys)["key1"]
        common = {"subject": "s", "eventType": "T", "eventTime": "2026-01-02T03:04:05Z", "dataVersion": "1"}
        data = {"at": time.time(), "pad": data}
        body = json.dumps([{"id": id, "data": data, **common} for id in ids]).encode()
        path = f"/topics/{topic}/api/events"
        return (await self.call("POST", path, body, [f"aeg-sas-key: {self.keys[topic]}"]))[0]

    async def end(self, how=signal.SIGTERM):
        """Ends it; returns the seconds that it took, and its exit code."""
        began = time.time()
        self.process.send_signal(how)
        while self.process.poll() is None:
            await asyncio.sleep(0.005)
        return time.time() - began, self.process.returncode

    def megabytes(self, member):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{member}:")[2].split()[0]) / 1024

    async def audit(self, topic):
        """Returns whether the ledger balances."""
        command = [self.program, "--home", self.home, "audit", "--topic", topic, "--wait", "30"]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
        return await process.wait() == 0


async def until(holds, seconds=120):
    ends = time.time() + seconds
    while not holds() and time.time() < ends:
        await asyncio.sleep(0.01)


async def each(interval, seconds, make):
    """Starts a task at each interval, for so many seconds; returns all results."""
    began, tasks = time.time(), []
    while (due := began + len(tasks) * interval) < began + seconds:
        await asyncio.sleep(max(0, due - time.time()))
        tasks.append(asyncio.create_task(make(len(tasks))))
    return await asyncio.gather(*tasks)


def milliseconds(values):
    values = sorted(values)
    at = lambda part: round(values[int(part * (len(values) - 1))] * 1000, 2)
    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "most_ms": at(1)}


async def sigterm(arguments):
    """SIGTERM while at least 1,000 requests are under way, then the next process."""
    endpoint = await Endpoint().start()
    dev = Dev(arguments, {"orders": [endpoint.url(5, n + 1) for n in range(50)]})
    await dev.start()
    # As much at once as each endpoint gets, which grows with its answers.
    for n in range(60):
        assert await dev.publish("orders", [f"e{n}"]) == 200
    await until(lambda: endpoint.open >= 1000)
    under_way, (took, code) = endpoint.open, await dev.end()
    await dev.start()
    await until(lambda: len(endpoint.seen) >= 60 * 50)
    await asyncio.sleep(10)
    await dev.end()
    twice, lost = endpoint.seen.total() - len(endpoint.seen), 60 * 50 - len(endpoint.seen)
    return {"under_way": under_way, "exit_s": took, "exit": code, "twice": twice, "lost": lost}


async def half(arguments):
    """400 clients that send half a request: 200 half a head, 200 half a body."""
    dev = Dev(arguments, {"orders": []})
    await dev.start()
    head = b"POST /topics/orders/api/events HTTP/1.1\r\nhost: localhost\r\naeg-sas-key: "
    await dev.publish("orders", ["e"])
    body = head + dev.keys["orders"].encode() + b"\r\ncontent-length: 100\r\n\r\n[{"
    open_, began = {}, time.time()
    for n in range(400):
        reader, writer = await asyncio.open_connection(dev.host, dev.port)
        writer.write(body if n % 2 else head)
        open_[n] = (reader, writer)

    async def closed(n):
        answer = b""
        try:
            while more := await open_[n][0].read(4096):
                answer += more
        except OSError:
            pass
        return ["head", "body"][n % 2], answer[9:12].decode(), time.time() - began

    done, _ = await asyncio.wait([asyncio.create_task(closed(n)) for n in open_], timeout=120)
    after = [task.result() for task in done]
    await dev.end()
    found = {"closed": len(after), "statuses": collections.Counter(f"{of} {status}" for of, status, _ in after)}
    for half in ("head", "body"):
        found[f"{half}_most_s"] = max(took for of, _, took in after if of == half)
    return found


async def bodies(arguments):
    """30 bodies of 10 MB from clients without a key."""
    dev = Dev(arguments, {"orders": []})
    await dev.start()
    await dev.publish("orders", ["e"])
    before = dev.megabytes("VmHWM")
    send = lambda: dev.call("POST", "/topics/orders/api/events", b" " * 10_000_000, ["aeg-sas-key: none"])
    statuses = collections.Counter(status for status, _ in await asyncio.gather(*[send() for _ in range(30)]))
    more = dev.megabytes("VmHWM") - before
    await dev.end()
    return {"more_mb": more, "statuses": statuses}


async def descriptors(arguments):
    """`ulimit -n 256`: 20 hosts that take 1 s, and a quick one on a topic of its own."""
    endpoint = await Endpoint().start()
    slow, quick = [endpoint.url(1, n + 1) for n in range(20)], endpoint.url(0, 99)
    dev = Dev(arguments, {"slow": slow, "quick": [quick]}, descriptors=256)
    await dev.start()
    statuses = await asyncio.gather(
        each(0.1, 30, lambda n: dev.publish("slow", [f"s{n}"])),
        each(0.05, 30, lambda n: dev.publish("quick", [f"q{n}"])),
    )
    published = 20 * len(statuses[0]) + len(statuses[1])
    await until(lambda: len(endpoint.seen) >= published, 600)
    query = json.dumps({"series": {"step": "Hour"}}).encode()
    _, answer = await dev.call("POST", "/journalQueries", query)
    failed = collections.Counter()
    for entry in json.loads(answer)["series"]:
        failed.update(entry.get("failedAttempts", {}))
    balances = [await dev.audit(topic) for topic in ("slow", "quick")]
    await dev.end()
    quick = [late for id, late in endpoint.latency.items() if id.startswith("q")]
    return {
        "arrived": len(endpoint.seen), "published": published,
        "refused": sum(status != 200 for status in statuses[0] + statuses[1]),
        "failed_attempts": failed, "balances": balances, "quick": milliseconds(quick),
    }


async def hanging(arguments):
    """A healthy endpoint at 50/s beside one that never answers and gets 100/s; after 15 s."""
    endpoint = await Endpoint().start()
    dev = Dev(arguments, {"bad": [endpoint.url(1000, 2)], "good": [endpoint.url(0)]})
    await dev.start()
    await asyncio.gather(
        each(0.01, 60, lambda n: dev.publish("bad", [f"b{n}"])),
        each(0.02, 60, lambda n: dev.publish("good", [f"g{n}"])),
    )
    await until(lambda: len(endpoint.latency) >= 3000)
    await dev.end(signal.SIGKILL)
    warm = [late for id, late in endpoint.latency.items() if int(id[1:]) >= 750]
    return {"arrived": len(endpoint.latency), **milliseconds(warm)}


async def waiting(arguments):
    """A million deliveries to a hanging endpoint; kill -9; the next process, and a topic beside them."""
    endpoint = await Endpoint().start()
    dev = Dev(arguments, {"bad": [endpoint.url(1000, 2)], "good": [endpoint.url(0)]})
    await dev.start()
    for first in range(0, arguments.events, 500):
        ids = [f"b{n}" for n in range(first, first + 500)]
        while await dev.publish("bad", ids) != 200:
            await asyncio.sleep(0.1)
    await dev.end(signal.SIGKILL)
    ready = await dev.start()
    _, health = await dev.call("GET", "/topics/bad/eventSubscriptions/sub-0/health")
    await dev.publish("good", ["g"])
    await until(lambda: endpoint.latency)
    began = time.time()
    await asyncio.gather(*[dev.publish("good", [f"g{n}"]) for n in range(500)])
    await until(lambda: len(endpoint.latency) > 500)
    good = time.time() - began
    await asyncio.sleep(60)
    peak = dev.megabytes("VmHWM")
    await dev.end(signal.SIGKILL)
    waits = json.loads(health)["waitingEvents"]
    return {"waiting": waits, "ready_s": ready, "good_500_s": good, "peak_mb": peak}


async def full(arguments):
    """A small disk is filled under load, kept full for 20 s, and freed."""
    folder = pathlib.Path(arguments.data)
    endpoint = await Endpoint().start()
    dev = Dev(arguments, {"orders": [endpoint.url(0.05)]}, data=folder / "data")
    await dev.start()
    accepted, statuses, ends = set(), collections.Counter(), False

    async def publisher(who):
        n = 0
        while not ends:
            id, n = f"{who}-{n}", n + 1
            status = await dev.publish("orders", [id], "x" * 3000)
            statuses[status] += 1
            if status == 200:
                accepted.add(id)
            await asyncio.sleep(0.05 if status == 200 else 0.25)

    def fill():
        with (folder / "fill").open("ab", buffering=0) as file:
            for size in (1 << 16, 512):
                try:
                    while True:
                        file.write(b"0" * size)
                except OSError:
                    pass

    publishers = [asyncio.create_task(publisher(n)) for n in range(30)]
    await asyncio.sleep(6)
    for _ in range(5):
        fill()
        await asyncio.sleep(4)
    before, began = endpoint.seen.total(), time.time()
    (folder / "fill").unlink()
    await until(lambda: endpoint.seen.total() > before)
    first = time.time() - began
    await asyncio.sleep(10)
    ends = True
    await asyncio.gather(*publishers)
    arrived = lambda: {id for _, id in endpoint.seen}
    await until(lambda: accepted <= arrived())
    balances = await dev.audit("orders")
    _, code = await dev.end()
    return {
        "statuses": statuses, "first_after_room_s": first, "lost": len(accepted - arrived()),
        "twice": endpoint.seen.total() - len(endpoint.seen), "balances": balances, "exit": code,
    }


CASES = [sigterm, half, bodies, descriptors, hanging, waiting, full]


def sync_ms(folder):
    """Returns the median time of an fdatasync of 4 KB in the folder."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(200):
            file.write(b"0" * 4096)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return sorted(times)[100]


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("case", nargs="*", help=", ".join(case.__name__ for case in CASES))
    parser.add_argument("--gridpost", default="target/release/gridpost")
    parser.add_argument("--data", help="a small disk of its own, for `full`")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many wait in `waiting`")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES[1],) * 2)
    print(json.dumps({"fdatasync_ms": round(sync_ms(tempfile.gettempdir()), 3)}))
    for case in CASES:
        if case.__name__ in arguments.case or not arguments.case and (case is not full or arguments.data):
            try:
                found = await case(arguments)
            finally:
                for dev in RUNS:
                    if dev.process:
                        dev.process.kill()
                        dev.process.wait()
                    shutil.rmtree(dev.home)
                    shutil.rmtree(dev.data, ignore_errors=True)
                RUNS.clear()
            found = {name: round(of, 3) if isinstance(of, float) else of for name, of in found.items()}
            print(json.dumps({"case": case.__name__, **found}), flush=True)


asyncio.run(main())
