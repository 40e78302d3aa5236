"""A receiver of events written as the samples for Event Grid are, with the SDKs' own parsers.

It prints its port and serves until it is ended. Below `/manual/` it gives no consent of its own.

POST, OPTIONS /<name>   what an event subscription's endpoint gets
GET /seen/<name>        {"handshakes": [...], "events": [...], "problems": [...]} of that endpoint
"""

import json
import sys
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, SystemEventNames
from cloudevents.http import from_http

VALIDATION = SystemEventNames.EventGridSubscriptionValidationEventName

lock = Lock()
seen = defaultdict(lambda: {"handshakes": [], "events": [], "problems": []})


def read_event_grid(event):
    return {"parser": "EventGridEvent", "id": event.id, "type": event.event_type,
            "subject": event.subject, "data": event.data, "dataVersion": event.data_version}


def read_cloud_event(event):
    return {"parser": "CloudEvent", "id": event.id, "type": event.type, "subject": event.subject,
            "source": event.source, "data": event.data, "dataschema": event.dataschema}


def parse(headers, body):
    media_type = headers["content-type"].split(";")[0]
    if media_type == "application/cloudevents+json":
        event = CloudEvent.from_json(body)
        # The CloudEvents project's own SDK must read the same out of the whole request.
        other = from_http(headers, body)
        assert (event.id, event.type, event.source) == (other["id"], other["type"], other["source"])
        assert event.data == other.data, (event.data, other.data)
        return [read_cloud_event(event)]
    events = json.loads(body)
    assert isinstance(events, list), "a batch is an array"
    if media_type == "application/cloudevents-batch+json":
        return [read_cloud_event(CloudEvent.from_dict(event)) for event in events]
    assert media_type == "application/json", media_type
    if all("eventType" in event for event in events):
        return [read_event_grid(EventGridEvent.from_dict(event)) for event in events]
    return [{"parser": "json", "event": event} for event in events]


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, what, value):
        with lock:
            seen[self.path.split("?")[0]][what].append(value)

    def answer(self, status, headers=(), document=None):
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if document is not None:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with lock:
            found = json.loads(json.dumps(seen[self.path.removeprefix("/seen")]))
        self.answer(200, document=found)

    def do_OPTIONS(self):
        origin = self.headers["WebHook-Request-Origin"]
        self.note("handshakes", {"origin": origin, "url": self.headers["WebHook-Request-Callback"]})
        if self.path.startswith("/manual/"):
            return self.answer(200)
        allowed = [("WebHook-Allowed-Rate", "*"), ("WebHook-Allowed-Origin", origin)]
        return self.answer(200, allowed)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers["aeg-event-type"]
        if kind == "SubscriptionValidation":
            event = EventGridEvent.from_dict(json.loads(body)[0])
            is_validation = event.event_type == VALIDATION
            self.note("handshakes", {"event": is_validation, "url": event.data["validationUrl"]})
            if self.path.startswith("/manual/"):
                return self.answer(200)
            return self.answer(200, document={"validationResponse": event.data["validationCode"]})
        if kind != "Notification":
            self.note("problems", f"aeg-event-type is {kind}")
            return self.answer(400)
        try:
            events = parse({name.lower(): value for name, value in self.headers.items()}, body)
        except Exception as error:  # noqa: BLE001: whatever a parser raises is what is looked for
            self.note("problems", repr(error))
            return self.answer(200)
        for event in events:
            self.note("events", event)
        return self.answer(200)


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_address[1], flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
