"""Verifies the signatures of deliveries with the library of Standard Webhooks.

Input: [{"secret", "headers": {...}, "body": "<text>"}, ...]
Output: [null | "<why it is refused>", ...]
"""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def verify(delivery):
    try:
        Webhook(delivery["secret"]).verify(delivery["body"], delivery["headers"])
    except WebhookVerificationError as error:
        return str(error)
    return None


json.dump([verify(delivery) for delivery in json.load(sys.stdin)], sys.stdout)
