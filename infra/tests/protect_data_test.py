"""Each table depends on each queue: where AWS refuses to delete a protected table, Terraform deletes no queue.

    python3 -m unittest discover -s infra/tests -p '*_test.py'
"""

import re
import unittest
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent


def resources(kind, text):
    """The resources of a type, as name and text between the braces."""
    return dict(re.findall(rf'^resource "{kind}" "([a-z0-9_]+)" {{\n(.*?)^}}$', text, re.S | re.M))


def missing(text):
    """The pairs of a table and a queue that it does not depend on."""
    pairs = []
    for table, body in resources("aws_dynamodb_table", text).items():
        named = re.search(r"^  depends_on = \[(.*?)\]", body, re.S | re.M)
        named = set(re.findall(r"aws_sqs_queue\.([a-z0-9_]+)", named.group(1))) if named else set()
        pairs += [(table, queue) for queue in resources("aws_sqs_queue", text) if queue not in named]
    return pairs


class ProtectData(unittest.TestCase):
    """The module's files, and one without a dependency."""

    def setUp(self):
        self.text = "\n".join(path.read_text() for path in sorted(INFRA.glob("*.tf")))

    def test_every_table_is_deleted_before_every_queue(self):
        self.assertEqual(len(resources("aws_dynamodb_table", self.text)), 2)
        self.assertEqual(len(resources("aws_sqs_queue", self.text)), 7)
        self.assertEqual(missing(self.text), [])

    def test_a_queue_that_is_left_out_is_found(self):
        queue = '\nresource "aws_sqs_queue" "another" {\n  name = "another"\n}\n'
        self.assertEqual(missing(self.text + queue), [("config", "another"), ("state", "another")])

    def test_no_queue_depends_on_a_table(self):
        for name, body in resources("aws_sqs_queue", self.text).items():
            self.assertNotIn("aws_dynamodb_table", body, name)


if __name__ == "__main__":
    unittest.main()
