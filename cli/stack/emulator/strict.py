"""Makes the emulator as strict as AWS: `quotas.py` in front of its services.

What a request breaks is answered as AWS would, and noted as a line of JSON in `quotas.log` beside this
file: programs that respect AWS's limits leave none there. What a publisher sends to API Gateway is no
program's fault and is only answered.
"""

import asyncio
import json
import os
import time
from functools import wraps
from urllib.parse import parse_qs

import quotas
from ministack import app
from ministack.core.responses import error_response_json
from ministack.services import dynamodb, eventbridge, lambda_svc, s3, sns, sqs

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quotas.log")


def note(service, operation, resource, problem):
    line = {"service": service, "operation": operation, "resource": resource, "problem": problem}
    written = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(written, json.dumps(line).encode() + b"\n")
    os.close(written)


def sqs_strict(action, handler):
    def age_s(queue):
        def of(receipt):
            try:
                messages = sqs._get_q(queue)["messages"]
            except sqs._Err:
                return None
            for message in messages:
                if receipt and message.get("receipt_handle") == receipt and "received_at" in message:
                    return time.time() - message["received_at"]
            return None

        return of

    @wraps(handler)
    def handle(request, queue):
        url = request.get("QueueUrl") or queue
        whole, entries = quotas.sqs(action, request, age_s(url))
        for code, message in [whole] if whole else entries.values():
            note("sqs", action, url or request.get("QueueName", ""), f"{code}: {message}")
        if whole:
            raise sqs._Err(*whole)
        if not entries:
            return handler(request, queue)
        kept = [entry for entry in request["Entries"] if entry["Id"] not in entries]
        answer = handler({**request, "Entries": kept}, queue) if kept else {"Successful": [], "Failed": []}
        answer["Failed"] = list(answer.get("Failed") or [])
        for name, (code, message) in entries.items():
            answer["Failed"].append({"Id": name, "Code": code, "Message": message, "SenderFault": True})
        return answer

    return handle


for action, handler in list(sqs._HANDLERS.items()):
    sqs._HANDLERS[action] = sqs_strict(action, handler)

collect = sqs._collect_msgs


def collect_and_remember(*arguments):
    collected = collect(*arguments)
    for message in collected:
        message["received_at"] = time.time()
    return collected


sqs._collect_msgs = collect_and_remember

dynamodb_handle = dynamodb.handle_request


async def dynamodb_strict(method, path, headers, body, query):
    action = headers.get("x-amz-target", "").split(".")[-1]
    # Nothing shorter breaks a limit, unless it is many items.
    if len(body) > quotas.EXPRESSION_MAX or action.startswith(("Batch", "Transact")):
        request = json.loads(body)
        problem = quotas.dynamodb(action, request)
        if problem:
            tables = request.get("TableName") or ",".join(request.get("RequestItems") or [])
            note("dynamodb", action, tables, problem)
            return error_response_json("ValidationException", problem, 400)
    return await dynamodb_handle(method, path, headers, body, query)


dynamodb.handle_request = dynamodb_strict

s3_handle = s3.handle_request


async def s3_strict(method, path, headers, *more, **named):
    bucket, key = s3._parse_bucket_key(path, headers)
    problem = quotas.s3(key or "", headers)
    if problem:
        note("s3", method, bucket, ": ".join(problem))
        return s3._error(*problem, 400)
    return await s3_handle(method, path, headers, *more, **named)


s3.handle_request = s3_strict

sns_handle = sns.handle_request


async def sns_strict(method, path, headers, body, query):
    said = parse_qs(body.decode(errors="replace")) if method == "POST" else {}
    action = said.get("Action", [""])[0]
    messages = []
    if action == "PublishBatch":
        for entry in sns._parse_batch_entries(said):
            attributes = entry["message_attributes"]
            messages.append({"Id": entry["id"], "MessageBody": entry["message"], "MessageAttributes": attributes})
    problem = quotas.sns(action, messages)
    if problem:
        note("sns", action, said.get("TopicArn", [""])[0], ": ".join(problem))
        return sns._error(*problem, 400)
    return await sns_handle(method, path, headers, body, query)


sns.handle_request = sns_strict

events_handle = eventbridge.handle_request


async def events_strict(method, path, headers, body, query):
    action = headers.get("x-amz-target", "").split(".")[-1]
    request = json.loads(body) if action == "PutEvents" and body else {}
    whole, refused = quotas.events(action, request)
    entries = request.get("Entries") or []
    for code, message in [whole] if whole else refused.values():
        note("events", action, entries[0].get("EventBusName", ""), f"{code}: {message}")
    if whole:
        return error_response_json(*whole, 400)
    if not refused:
        return await events_handle(method, path, headers, body, query)
    kept = [entry for number, entry in enumerate(entries) if number not in refused]
    answer = {"Entries": []}
    if kept:
        body = json.dumps({**request, "Entries": kept}).encode()
        status, more, text = await events_handle(method, path, headers, body, query)
        if status != 200:
            return status, more, text
        answer = json.loads(text)
    for number, (code, message) in sorted(refused.items()):
        answer["Entries"].insert(number, {"ErrorCode": code, "ErrorMessage": message})
    answer["FailedEntryCount"] = answer.get("FailedEntryCount", 0) + len(refused)
    return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()


eventbridge.handle_request = events_strict

execute = lambda_svc._execute_function


def failed(kind, problem):
    return {"error": True, "body": {"errorType": kind, "errorMessage": problem}, "log": ""}


def execute_strict(function, event):
    result = execute(function, event)
    name = (function.get("config") or function).get("FunctionName", "")
    answer = result.get("body")
    problem = quotas.response(len(answer if isinstance(answer, str) else json.dumps(answer, default=str)))
    if problem:
        note("lambda", "response", name, problem)
        return failed("Function.ResponseSizeTooLarge", problem)
    records = event.get("Records") if isinstance(event, dict) else None
    if not result.get("error") and records and records[0].get("eventSource") == "aws:sqs":
        problem = quotas.batch_response({record["messageId"] for record in records}, answer)
        if problem:
            note("lambda", "batchItemFailures", name, problem)
            return failed("InvalidBatchResponse", problem)
    return result


lambda_svc._execute_function = execute_strict

invoke = lambda_svc._invoke


async def invoke_strict(name, event, headers, *more, **named):
    is_asynchronous = headers.get("x-amz-invocation-type", "") == "Event"
    problem = quotas.invocation(len(json.dumps(event)), is_asynchronous)
    if problem:
        note("lambda", "Invoke", name, problem)
        return error_response_json("RequestTooLargeException", problem, 413)
    return await invoke(name, event, headers, *more, **named)


lambda_svc._invoke = invoke_strict

gateway = app._handle_execute_api_request


def said(status, message):
    return status, {"Content-Type": "application/json"}, json.dumps({"message": message}).encode()


async def gateway_strict(host, path, method, headers, body, query, **named):
    if app._parse_execute_api_url(host, path) is None:
        return await gateway(host, path, method, headers, body, query, **named)
    line_bytes = len(method) + len(path) + len(named.get("raw_query_string") or "")
    problem = quotas.gateway(line_bytes, headers, len(body))
    if problem:
        return said(*problem)
    answering = asyncio.ensure_future(gateway(host, path, method, headers, body, query, **named))
    await asyncio.wait({answering}, timeout=quotas.GATEWAY_TIMEOUT_S)
    if answering.done():
        return answering.result()
    note("apigateway", method, path, f"no response within {quotas.GATEWAY_TIMEOUT_S} s")
    return said(503, "Service Unavailable")


app._handle_execute_api_request = gateway_strict
