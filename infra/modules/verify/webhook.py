"""The endpoint of `gridpost verify`: answers as its URL says, and reports each request into a queue.

POST /RUN/EVENT-SUBSCRIPTION?token=T&answers=500,200&delay=35 answers attempt by attempt (`aeg-delivery-count`
says which it is; the last answer repeats), after so many seconds. It keeps nothing. GET tells its clock.
"""

import base64
import hashlib
import hmac
import json
import os
import time

import boto3

DELAY_MAX = 40  # seconds; the function may run for 60

sqs = boto3.client("sqs")


def answer(status, document=None):
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(document) if document is not None else "",
    }


def handler(event, _context):
    now_ms = time.time_ns() // 1_000_000
    query = event.get("queryStringParameters") or {}
    # The function URL is open to everybody: without the token nothing is done.
    if not hmac.compare_digest(query.get("token", "").encode(), os.environ["TOKEN"].encode()):
        return answer(403)
    if event["requestContext"]["http"]["method"] == "GET":
        return answer(200, {"nowMs": now_ms})
    body = event.get("body") or ""
    body = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
    events = json.loads(body)
    events = events if isinstance(events, list) else [events]
    headers = event.get("headers") or {}
    if headers.get("aeg-event-type", "").lower() == "subscriptionvalidation":
        return answer(200, {"validationResponse": events[0]["data"]["validationCode"]})
    return deliver(event["rawPath"], headers, query, events, now_ms)


def deliver(path, headers, query, events, now_ms):
    count = int(headers.get("aeg-delivery-count", "0"))
    report = {"path": path, "atMs": now_ms, "count": count, "ids": [one.get("id") for one in events]}
    data = events[0].get("data") if events else None
    if isinstance(data, dict) and isinstance(data.get("filler"), str):
        filler = data["filler"].encode()
        report["filler"] = {"bytes": len(filler), "sha256": hashlib.sha256(filler).hexdigest()}
    sqs.send_message(QueueUrl=os.environ["REPORTS"], MessageBody=json.dumps(report))
    answers = [int(status) for status in query.get("answers", "200").split(",")]
    time.sleep(max(0, min(int(query.get("delay", "0")), DELAY_MAX)))
    return answer(answers[min(max(count, 0), len(answers) - 1)])
