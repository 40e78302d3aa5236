"""AWS's limits on single requests, as pure checks: a request in, what AWS refuses it with out.

The emulator takes much that AWS refuses. `strict.py` puts these in front of its services. Each rule
has its source; sizes are in bytes of UTF-8.
"""

import base64
import json
import re

KIB, MIB = 1024, 1024 * 1024

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
MESSAGE_MAX = MIB
BATCH_ENTRIES_MAX = 10
DELAY_MAX_S = 900
VISIBILITY_MAX_S = 43_200
ATTRIBUTES_MAX = 10

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html (MessageBody)
NOT_IN_A_BODY = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The same page (MessageGroupId): alphanumeric and punctuation.
GROUP = re.compile(r"[!-~]{1,128}")
# .../SQSDeveloperGuide/sqs-message-metadata.html
ATTRIBUTE_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
ATTRIBUTE_TYPE = re.compile(r"(String|Number|Binary)(\..{1,250})?")
# .../APIReference/API_SendMessageBatchRequestEntry.html (Id)
ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
# .../APIReference/API_SetQueueAttributes.html, API_ReceiveMessage.html: lowest and highest value
RANGES = {
    "DelaySeconds": (0, DELAY_MAX_S),
    "MaxNumberOfMessages": (1, 10),
    "MaximumMessageSize": (KIB, MESSAGE_MAX),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, VISIBILITY_MAX_S),
    "WaitTimeSeconds": (0, 20),
}


def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


def out_of_range(values):
    for name, (least, most) in RANGES.items():
        value = values.get(name)
        if value is not None and not least <= int(value) <= most:
            reason = f"Must be between {least} and {most}, if provided."
            return "InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}"
    return None


def message_size(message):
    bytes_of_all = size(message.get("MessageBody") or "")
    for name, attribute in (message.get("MessageAttributes") or {}).items():
        binary = attribute.get("BinaryValue") or ""
        value = len(base64.b64decode(binary)) if binary else size(attribute.get("StringValue") or "")
        bytes_of_all += size(name) + size(attribute.get("DataType") or "") + value
    return bytes_of_all


def bad_attribute(attributes):
    if len(attributes) > ATTRIBUTES_MAX:
        return f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
    for name, attribute in attributes.items():
        if not ATTRIBUTE_NAME.fullmatch(name):
            return f"The message attribute name '{name}' is invalid."
        if not ATTRIBUTE_TYPE.fullmatch(attribute.get("DataType") or ""):
            return f"The message attribute '{name}' has an invalid message attribute type."
        value = attribute.get("StringValue") or attribute.get("BinaryValue")
        if not value:
            return f"The message attribute '{name}' must contain a non-empty message attribute value."
        if attribute.get("StringValue") and NOT_IN_A_BODY.search(value):
            return f"The message attribute '{name}' has characters outside the allowed set."
    return None


def bad_message(message):
    """What one message is refused with, in a batch or alone."""
    body = message.get("MessageBody") or ""
    if not body:
        return "MissingParameter", "The request must contain the parameter MessageBody."
    if NOT_IN_A_BODY.search(body):
        return "InvalidMessageContents", "The message contains characters outside the allowed set."
    if message_size(message) > MESSAGE_MAX:
        reason = f"Message must be shorter than {MESSAGE_MAX} bytes."
        return "InvalidParameterValue", f"One or more parameters are invalid. Reason: {reason}"
    attribute = bad_attribute(message.get("MessageAttributes") or {})
    if attribute:
        return "InvalidParameterValue", attribute
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        value = message.get(name)
        if value is not None and not GROUP.fullmatch(value):
            reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            return "InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}"
    return out_of_range(message)


def bad_visibility(change, age_s):
    """`age_s`: for how long the message of that receipt has been received already, or None."""
    timeout = change.get("VisibilityTimeout")
    # .../SQSDeveloperGuide/sqs-visibility-timeout.html: 12 hours from the receive, whatever is changed since.
    if timeout and age_s is not None and 0 < int(timeout) <= VISIBILITY_MAX_S < int(timeout) + age_s:
        reason = f"Total VisibilityTimeout for the message is beyond the limit [{VISIBILITY_MAX_S} seconds]"
        return "InvalidParameterValue", f"Value {timeout} for parameter VisibilityTimeout is invalid. Reason: {reason}"
    return out_of_range(change)


def bad_batch(entries, sends):
    # .../APIReference/API_SendMessageBatch.html (Errors)
    if not entries:
        return "EmptyBatchRequest", "There should be at least one entry in the request."
    if len(entries) > BATCH_ENTRIES_MAX:
        return "TooManyEntriesInBatchRequest", f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}."
    ids = [entry.get("Id") or "" for entry in entries]
    if not all(map(ENTRY_ID.fullmatch, ids)):
        return "InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
    if len(set(ids)) < len(ids):
        return "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id."
    total = sum(map(message_size, entries)) if sends else 0
    if total > MESSAGE_MAX:
        return "BatchRequestTooLong", f"Batch requests cannot be longer than {MESSAGE_MAX} bytes. You have sent {total} bytes."
    return None


def sqs(action, request, age_s=lambda _receipt: None):
    """What the whole request is refused with, and what which entries of a batch are: by their ids."""
    if action == "SendMessage":
        return bad_message(request), {}
    if action == "ChangeMessageVisibility":
        return bad_visibility(request, age_s(request.get("ReceiptHandle"))), {}
    if not action.endswith("Batch"):
        return out_of_range(request) or out_of_range(request.get("Attributes") or {}), {}
    entries = request.get("Entries") or []
    whole = bad_batch(entries, action == "SendMessageBatch")
    refused = {}
    for entry in [] if whole else entries:
        if action == "SendMessageBatch":
            refused[entry["Id"]] = bad_message(entry)
        elif action == "ChangeMessageVisibilityBatch":
            refused[entry["Id"]] = bad_visibility(entry, age_s(entry.get("ReceiptHandle")))
    return whole, {name: problem for name, problem in refused.items() if problem}


# https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html: 256 KiB, one message or all of a batch
PUBLISHED_MAX = 256 * KIB


def sns(action, messages):
    """Code and message, or None. `messages` as SQS would name their members."""
    if action not in ("Publish", "PublishBatch"):
        return None
    if action == "PublishBatch" and not all(ENTRY_ID.fullmatch(message.get("Id") or "") for message in messages):
        return "InvalidBatchEntryId", "The batch entry id can only contain alphanumeric characters, hyphens and underscores."
    if not all(message.get("MessageBody") for message in messages):
        return "InvalidParameter", "Invalid parameter: Empty message"
    attribute = next(filter(None, (bad_attribute(message.get("MessageAttributes") or {}) for message in messages)), None)
    if attribute:
        return "ParameterValueInvalid", attribute
    total = sum(map(message_size, messages))
    if total <= PUBLISHED_MAX:
        return None
    if len(messages) == 1:
        return "InvalidParameter", "Invalid parameter: Message too long"
    return "BatchRequestTooLong", f"The length of all the messages put together is more than the limit: {total} bytes."


# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsRequestEntry.html,
# .../userguide/eb-putevents.html (Calculating event entry size)
ENTRIES_MAX = 256 * KIB
DETAIL_TYPE_MAX = 128


def event_size(entry):
    texts = [entry.get(name) or "" for name in ("Source", "DetailType", "Detail")] + (entry.get("Resources") or [])
    return (14 if "Time" in entry else 0) + sum(map(size, texts))


def bad_event(entry):
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            return "InvalidArgument", f"Parameter {name} is not valid. Reason: {name} is a required argument."
    if len(entry["DetailType"]) > DETAIL_TYPE_MAX:
        return "InvalidArgument", f"Parameter DetailType is not valid. Reason: more than {DETAIL_TYPE_MAX} characters."
    try:
        detail = json.loads(entry["Detail"])
    except ValueError:
        detail = None
    return None if isinstance(detail, dict) else ("MalformedDetail", "Detail is malformed.")


def events(action, request):
    """What the whole of a PutEvents is refused with, and what which entries are: by their numbers, from 0."""
    entries = request.get("Entries") or [] if action == "PutEvents" else []
    if sum(map(event_size, entries)) > ENTRIES_MAX:
        return ("ValidationException", "Total size of the entries in the request is over the limit."), {}
    refused = {number: bad_event(entry) for number, entry in enumerate(entries)}
    return None, {number: problem for number, problem in refused.items() if problem}


# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html and
# .../APIReference/API_BatchWriteItem.html, API_BatchGetItem.html, API_TransactWriteItems.html
ITEM_MAX = 400 * KIB
WRITES_MAX, GETS_MAX, TRANSACTION_MAX = 25, 100, 100
BATCH_MAX, TRANSACTION_SIZE_MAX = 16 * MIB, 4 * MIB
EXPRESSION_MAX, EXPRESSION_VALUES_MAX = 4 * KIB, 2 * MIB


def value_size(value):
    """.../developerguide/CapacityUnitCalculations.html"""
    ((kind, held),) = value.items()
    if kind == "S":
        return size(held)
    if kind == "N":
        return (len(held.lstrip("-").replace(".", "").strip("0")) + 1) // 2 + 1
    if kind == "B":
        return len(base64.b64decode(held))
    if kind == "L":
        return 3 + sum(1 + value_size(one) for one in held)
    if kind == "M":
        return 3 + sum(1 + size(name) + value_size(one) for name, one in held.items())
    if kind in ("SS", "NS", "BS"):
        return sum(value_size({kind[0]: one}) for one in held)
    return 1


def item_size(item):
    return sum(size(name) + value_size(value) for name, value in item.items())


def bad_write(write):
    if item_size(write.get("Item") or {}) > ITEM_MAX:
        return "Item size has exceeded the maximum allowed size"
    values = item_size(write.get("ExpressionAttributeValues") or {})
    if "UpdateExpression" in write and values > ITEM_MAX:
        return "Item size to update has exceeded the maximum allowed size"
    if values > EXPRESSION_VALUES_MAX:
        return "ExpressionAttributeValues are larger than 2 MB"
    for name, text in write.items():
        if name.endswith("Expression") and size(text) > EXPRESSION_MAX:
            return f"Invalid {name}: Expression size has exceeded the maximum allowed size"
    return None


def dynamodb(action, request):
    """The message of a ValidationException, or None."""
    tables = request.get("RequestItems") or {}
    if action == "BatchWriteItem":
        puts = [write.get("PutRequest") or {} for writes in tables.values() for write in writes]
        if not 1 <= len(puts) <= WRITES_MAX:
            return "Too many items requested for the BatchWriteItem call"
        if sum(item_size(put.get("Item") or {}) for put in puts) > BATCH_MAX:
            return "The request is larger than 16 MB"
        return next(filter(None, map(bad_write, puts)), None)
    if action == "BatchGetItem":
        if sum(len(asked["Keys"]) for asked in tables.values()) > GETS_MAX:
            return "Too many items requested for the BatchGetItem call"
        return None
    if action.startswith("Transact"):
        writes = [write for item in request.get("TransactItems") or [] for write in item.values()]
        if not 1 <= len(writes) <= TRANSACTION_MAX:
            return "Member must have length less than or equal to 100"
        if sum(item_size(write.get("Item") or {}) for write in writes) > TRANSACTION_SIZE_MAX:
            return "The transaction is larger than 4 MB"
        return next(filter(None, map(bad_write, writes)), None)
    return bad_write(request)


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html, UsingMetadata.html
KEY_MAX = 1024
METADATA_MAX = 2 * KIB


def s3(key, headers):
    """Code and message, or None."""
    if size(key) > KEY_MAX:
        return "KeyTooLongError", "Your key is too long"
    metadata = [(name, value) for name, value in headers.items() if name.startswith("x-amz-meta-")]
    if sum(size(name[11:]) + size(value) for name, value in metadata) > METADATA_MAX:
        return "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size"
    return None


# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (Invocation payload)
SYNCHRONOUS_MAX = 6 * MIB
ASYNCHRONOUS_MAX = MIB


def invocation(payload_bytes, is_asynchronous=False):
    """The message of a RequestTooLargeException, or None."""
    most = ASYNCHRONOUS_MAX if is_asynchronous else SYNCHRONOUS_MAX
    return f"{payload_bytes} byte payload is too large: at most {most}" if payload_bytes > most else None


def response(payload_bytes):
    """The message of a Function.ResponseSizeTooLarge, or None."""
    if payload_bytes > SYNCHRONOUS_MAX:
        return f"Response payload size ({payload_bytes} bytes) exceeded maximum allowed payload size ({SYNCHRONOUS_MAX} bytes)."
    return None


def batch_response(message_ids, answer):
    """Why Lambda takes every record of a batch as failed, or None.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html (Success and failure conditions)
    """
    if isinstance(answer, str):
        try:
            answer = json.loads(answer or "null")
        except ValueError:
            return "the response is not JSON"
    if answer is not None and not isinstance(answer, dict):
        return "the response is no object"
    for failure in (answer or {}).get("batchItemFailures") or []:
        name = failure.get("itemIdentifier") if isinstance(failure, dict) else None
        if not name:
            return "an itemIdentifier is missing or empty"
        if name not in message_ids:
            return f"itemIdentifier {name} is of no record"
    return None


# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html
GATEWAY_BODY_MAX = 10 * MIB
GATEWAY_HEADERS_MAX = 10_240
GATEWAY_TIMEOUT_S = 30


def gateway(line_bytes, headers, body_bytes):
    """Status and message, or None. Without a body's length nothing is refused before the body is read."""
    if line_bytes + sum(map(size, headers.values())) > GATEWAY_HEADERS_MAX:
        return 431, "Request Header Fields Too Large"
    if body_bytes > GATEWAY_BODY_MAX:
        return 413, "Request Entity Too Large"
    return None
