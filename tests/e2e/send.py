"""Sends events with Azure's own SDK, unchanged, and says what came of each send.

Input: [{"endpoint", "key", "schema", "events": [{"id", "type", "subject", "data"}, ...]}, ...]
Output: [{"ok": true} | {"error": <class>, "bases": [<class>, ...], "status", "code", "details"}, ...]
"""

import json
import sys

from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient


def build(schema, event):
    if schema == "CloudEventSchemaV1_0":
        return CloudEvent(
            id=event["id"],
            source="/gridpost/e2e",
            type=event["type"],
            subject=event["subject"],
            data=event["data"],
        )
    return EventGridEvent(
        id=event["id"],
        event_type=event["type"],
        subject=event["subject"],
        data=event["data"],
        data_version="1.0",
    )


def send(request):
    client = EventGridPublisherClient(request["endpoint"], AzureKeyCredential(request["key"]))
    try:
        client.send([build(request["schema"], event) for event in request["events"]])
    except HttpResponseError as error:
        return {
            "error": type(error).__name__,
            "bases": [base.__name__ for base in type(error).__mro__],
            "status": error.status_code,
            "code": error.error.code if error.error else None,
            "details": [detail.code for detail in error.error.details or []] if error.error else [],
        }
    return {"ok": True}


json.dump([send(request) for request in json.load(sys.stdin)], sys.stdout)
