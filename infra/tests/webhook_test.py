"""The webhook of modules/verify answers as its URL says, and reports; without its token it does neither.

    python3 -m unittest discover -s infra/tests -p '*_test.py'
"""

import importlib.util
import json
import os
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

FILE = Path(__file__).resolve().parent.parent / "modules/verify/webhook.py"


class Webhook(unittest.TestCase):
    """Calls as Lambda makes them for a function URL."""

    def setUp(self):
        self.reports = []
        client = types.SimpleNamespace(send_message=lambda **sent: self.reports.append(sent))
        sdk = types.SimpleNamespace(client=lambda _: client)
        spec = importlib.util.spec_from_file_location("webhook", FILE)
        self.program = importlib.util.module_from_spec(spec)
        with mock.patch.dict(sys.modules, boto3=sdk):
            spec.loader.exec_module(self.program)
        self.slept = []
        self.program.time = types.SimpleNamespace(time_ns=lambda: 7_000_000_000, sleep=self.slept.append)

    def call(self, method="POST", headers=None, body="[]", **query):
        event = {
            "rawPath": "/run/retry",
            "queryStringParameters": query,
            "headers": headers or {},
            "requestContext": {"http": {"method": method}},
            "body": body,
        }
        with mock.patch.dict(os.environ, TOKEN="t", REPORTS="q"):
            return self.program.handler(event, None)

    def test_without_the_token_nothing_is_done(self):
        for query in [{}, {"token": "x"}, {"token": ""}, {"token": "é"}]:
            self.assertEqual(self.call(**query)["statusCode"], 403, query)
        self.assertEqual(self.reports, [])

    def test_it_tells_its_clock(self):
        self.assertEqual(json.loads(self.call("GET", token="t")["body"]), {"nowMs": 7_000})

    def test_it_proves_that_it_wants_events(self):
        body = json.dumps([{"data": {"validationCode": "c"}}])
        told = self.call(headers={"aeg-event-type": "SubscriptionValidation"}, body=body, token="t")
        self.assertEqual(json.loads(told["body"]), {"validationResponse": "c"})
        self.assertEqual(self.reports, [])

    def test_attempts_are_answered_one_by_one_and_reported(self):
        body = json.dumps([{"id": "e", "data": {"filler": "abc"}}])
        for count, want in [("0", 500), ("1", 200), ("9", 200)]:
            told = self.call(headers={"aeg-delivery-count": count}, body=body, token="t", answers="500,200")
            self.assertEqual(told["statusCode"], want, count)
        self.assertEqual(len(self.reports), 3)
        report = json.loads(self.reports[1]["MessageBody"])
        filler = report.pop("filler")
        self.assertEqual(report, {"path": "/run/retry", "atMs": 7_000, "count": 1, "ids": ["e"]})
        self.assertEqual((filler["bytes"], filler["sha256"][:8]), (3, "ba7816bf"))

    def test_a_late_answer_is_reported_before_its_wait(self):
        self.program.time.sleep = lambda seconds: self.slept.append((seconds, len(self.reports)))
        self.call(token="t", delay="35")
        self.call(token="t", delay="9999")
        self.assertEqual(self.slept, [(35, 1), (40, 2)])


if __name__ == "__main__":
    unittest.main()
