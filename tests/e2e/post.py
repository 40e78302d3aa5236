"""Posts CloudEvents of the CloudEvents project's SDK by plain HTTP, in binary or structured form.

Input: [{"endpoint", "key", "form": "binary" | "structured", "attributes": {...}, "data"}, ...]
Output: [{"status", "body"}, ...]
"""

import json
import sys

import requests
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent

FORMS = {"binary": to_binary, "structured": to_structured}


def post(request):
    event = CloudEvent(request["attributes"], request["data"])
    headers, body = FORMS[request["form"]](event)
    headers = {**headers, "aeg-sas-key": request["key"]}
    answer = requests.post(request["endpoint"], data=body, headers=headers, timeout=60)
    return {"status": answer.status_code, "body": answer.text}


json.dump([post(request) for request in json.load(sys.stdin)], sys.stdout)
