"""Publishes events with Azure's own SDK. Reads a JSON array of publishes from standard input."""

import json
import sys

from azure.core.credentials import AzureKeyCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

for publish in json.load(sys.stdin):
    client = EventGridPublisherClient(publish["endpoint"], AzureKeyCredential(publish["key"]))
    event = publish["event"]
    if publish["schema"] == "CloudEventSchemaV1_0":
        client.send(
            CloudEvent(
                id=event["id"],
                source="/gridpost/demonstration",
                type=event["type"],
                subject=event["subject"],
                data=event["data"],
            )
        )
    else:
        client.send(
            EventGridEvent(
                id=event["id"],
                event_type=event["type"],
                subject=event["subject"],
                data=event["data"],
                data_version="1.0",
            )
        )
    print(event["id"], flush=True)
