"""deployer_policy.py sees each kind of fault, and finds the file without one.

    python3 -m unittest discover -s infra/tests -p '*_test.py'
"""

import copy
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import deployer_policy as checker  # noqa: E402

POLICY = json.loads((checker.INFRA / "deployer-policy.json").read_text())


class Faults(unittest.TestCase):
    """One fault each."""

    def found(self, change, types=frozenset(checker.NEEDED)):
        """What is said of the policy after a change."""
        policy = copy.deepcopy(POLICY)
        change(policy["Statement"])
        return checker.problems(policy, set(types))

    def test_the_file_is_right(self):
        self.assertEqual(self.found(lambda statements: None, checker.types_of_module()), [])

    def test_the_policy_of_sources_is_right_and_every_action_of_it_is_needed(self):
        policy = json.loads((checker.INFRA / "modules/aws-source/deployer-policy.json").read_text())
        types = checker.types_of_sources()
        self.assertEqual(types, set(checker.NEEDED_OF_SOURCES))
        self.assertEqual(checker.problems(policy, types, checker.NEEDED_OF_SOURCES), [])
        for index, statement in enumerate(policy["Statement"]):
            for action in statement["Action"]:
                other = copy.deepcopy(policy)
                other["Statement"][index]["Action"].remove(action)
                found = checker.problems(other, types, checker.NEEDED_OF_SOURCES)
                self.assertTrue(any(action in problem for problem in found), f"{statement['Sid']} without {action}")

    def test_what_the_provider_was_seen_to_call_is_needed(self):
        """The record has every type but those that the emulator or the recorded deployment lacks, and no source besides is given for
        what it shows."""
        recorded = checker.of_record()
        self.assertEqual(
            set(checker.FURTHER) - recorded.keys(),
            {"aws_apigatewayv2_api_mapping", "aws_apigatewayv2_domain_name", "aws_route53_record"},
        )
        for call, kind in [
            ("cloudwatch:DescribeAlarms", "aws_cloudwatch_metric_alarm"),
            ("iam:DeleteRolePermissionsBoundary", "aws_iam_role"),
            ("s3:GetAccelerateConfiguration", "aws_s3_bucket"),
            ("sns:ListSubscriptionsByTopic", "aws_sns_topic_subscription"),
        ]:
            self.assertIn(call, {action for action, _ in recorded[kind]})
        for kind, pairs in checker.FURTHER.items():
            twice = {pair for pair in pairs if pair in recorded.get(kind, set()) and "apigateway" not in pair[0]}
            self.assertEqual(twice, set(), f"{kind}: the record shows these")

    def test_a_boundary_may_be_asked_for(self):
        """IAM knows the condition for these actions alone: in another statement it would deny the others."""
        by_name = {statement["Sid"]: set(statement["Action"]) for statement in POLICY["Statement"]}
        bounded = {f"iam:{name}" for name in ["CreateRole", "DeleteRolePolicy", "PutRolePermissionsBoundary", "PutRolePolicy"]}
        self.assertEqual(by_name["RolePolicies"], bounded)
        self.assertIn("iam:DeleteRolePermissionsBoundary", by_name["Roles"])

    def test_every_action_is_needed_and_missed(self):
        for index, statement in enumerate(POLICY["Statement"]):
            for action in statement["Action"]:
                found = self.found(lambda statements: statements[index]["Action"].remove(action))
                self.assertTrue(any(action in problem for problem in found), f"{statement['Sid']} without {action}")

    def test_what_is_too_wide_is_told(self):
        def wide(statements):
            statements[0]["Action"].append("lambda:*")
            for statement in statements:
                statement["Resource"] = "*"
                statement.pop("Condition", None)

        found = "\n".join(self.found(wide))
        for fault in [
            "lambda:* is a pattern of actions",
            "lambda:*: no resource of the module needs it",
            "Functions: * could be bounded",
            "Mappings: * could be bounded",
            "Queues: * could be bounded",
            "iam:PassRole: not bounded to services",
        ]:
            self.assertIn(fault, found)

    def test_other_deployments_are_out_of_reach(self):
        for statement in POLICY["Statement"]:
            for action in statement["Action"]:
                for arn in ["arn:aws:sqs:eu-central-1:123456789012:other", "arn:aws:s3:::other/key"]:
                    self.assertFalse(checker.allows(statement, action, arn) and statement["Resource"] != "*")

    def test_types_that_are_not_known_and_length_are_told(self):
        self.assertIn("aws_kms_key: not in the table", "\n".join(self.found(lambda _: None, {"aws_kms_key"})))
        found = self.found(lambda statements: statements[0].update(Sid="x" * 1_000))
        self.assertIn("IAM takes 6144", "\n".join(found))


if __name__ == "__main__":
    unittest.main()
