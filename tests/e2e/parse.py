"""Parses delivered events with the parsers that receivers use.

Input: [{"schema", "headers": {...}, "body": "<one event as JSON text>"}, ...]
Output: [{"id", "type", "subject", "source", "time", "data", "dataVersion", "topic"}, ...]
"""

import json
import sys

from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent
from cloudevents.http import from_http


def parse(delivered):
    if delivered["schema"] == "EventGridSchema":
        event = EventGridEvent.from_json(delivered["body"])
        return {
            "id": event.id,
            "type": event.event_type,
            "subject": event.subject,
            "topic": event.topic,
            "time": event.event_time.isoformat(),
            "data": event.data,
            "dataVersion": event.data_version,
        }
    event = CloudEvent.from_json(delivered["body"])
    # The CloudEvents project's own SDK must read the same out of the whole request.
    other = from_http(delivered["headers"], delivered["body"])
    assert (event.id, event.type, event.source) == (other["id"], other["type"], other["source"])
    assert event.data == other.data, (event.data, other.data)
    return {
        "id": event.id,
        "type": event.type,
        "subject": event.subject,
        "source": event.source,
        "time": event.time.isoformat(),
        "data": event.data,
    }


json.dump([parse(delivered) for delivered in json.load(sys.stdin)], sys.stdout)
