"""Sends events with Azure's own SDK, unchanged, and says what came of each send.

Input: [{"endpoint", "key", "schema", "events": [{"id", "type", "subject", "data"}, ...],
         "client": "sync" | "aio", "credential": "key" | "sas" | "expired sas",
         "namespaceTopic": null | <name>}, ...]; the last three may be absent.
         With the schema "CustomEventSchema" events are sent as the dicts that they are; with "CNCF"
         they are built by the CloudEvents project's SDK.
Output: [{"ok": true} | {"error": <class>, "bases": [<class>, ...], "status", "code", "details"}, ...]
"""

import asyncio
import json
import sys
from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient, generate_sas
from azure.eventgrid.aio import EventGridPublisherClient as AioPublisherClient
from cloudevents.http import CloudEvent as CncfCloudEvent


def build(schema, event):
    if schema == "CustomEventSchema":
        return event
    if schema == "CNCF":
        attributes = {name: event[name] for name in ("id", "type", "subject")}
        return CncfCloudEvent({"source": "/gridpost/e2e", **attributes}, event["data"])
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


def credential(request):
    kind, key = request.get("credential", "key"), request["key"]
    if kind == "key":
        return AzureKeyCredential(key)
    hours = -1 if kind == "expired sas" else 1
    expires_at = datetime.now(timezone.utc) + timedelta(hours=hours)
    return AzureSasCredential(generate_sas(request["endpoint"], key, expires_at))


async def send(request):
    events = [build(request["schema"], event) for event in request["events"]]
    at = (request["endpoint"], credential(request))
    options = {"namespace_topic": request.get("namespaceTopic")}
    try:
        if request.get("client") == "aio":
            async with AioPublisherClient(*at, **options) as client:
                await client.send(events)
        else:
            EventGridPublisherClient(*at, **options).send(events)
    except HttpResponseError as error:
        return {
            "error": type(error).__name__,
            "bases": [base.__name__ for base in type(error).__mro__],
            "status": error.status_code,
            "code": error.error.code if error.error else None,
            "details": [detail.code for detail in error.error.details or []] if error.error else [],
        }
    return {"ok": True}


json.dump([asyncio.run(send(request)) for request in json.load(sys.stdin)], sys.stdout)
