#!/usr/bin/env python3
"""Holds deployer-policy.json, what Terraform must be allowed, to what the module makes, and the one of
modules/aws-source to what that makes besides.

    python3 infra/deployer_policy.py                every resource type of the module's files
    python3 infra/deployer_policy.py --plan FILE    and of a plan (terraform show -json)
    python3 infra/deployer_policy.py --write        writes needed.json, by which gridpost doctor judges policies

Exits with 1 where the policy allows too little or too much. What the provider calls is recorded (tests/provider_calls.py); what no
record shows is in FURTHER, each with its source.
"""

import fnmatch
import json
import re
import sys
from pathlib import Path

INFRA = Path(__file__).resolve().parent
DOCTOR = INFRA.parent / "cli/ops/src/doctor"
RECORD, NEEDED_FILE = DOCTOR / "provider-calls.json", DOCTOR / "needed.json"
PREFIX = "gridpost"
# IAM's limit for a managed policy, without white space; prefixes have at most 20 characters.
CHARACTERS_MAX, PREFIX_MAX = 6_144, 20

# ARNs by the arguments of a resource. A star is what is not known before.
FUNCTION = "arn:*:lambda:*:*:function:{function_name}"
MAPPING = "arn:*:lambda:*:*:event-source-mapping:*"
ROLE = "arn:*:iam::*:role{path}{name}"
QUEUE = "arn:*:sqs:*:*:{name}"
TABLE = "arn:*:dynamodb:*:*:table/{name}"
BUCKET = "arn:*:s3:::{bucket}"
LOGS = "arn:*:logs:*:*:log-group:{name}"
ALARM = "arn:*:cloudwatch:*:*:alarm:{alarm_name}"
DASHBOARD = "arn:*:cloudwatch::*:dashboard/{dashboard_name}"
SCHEDULE = "arn:*:scheduler:*:*:schedule/{group_name}/{name}"
STACK = "arn:*:cloudformation:*:*:stack/{name}/*"
RULE = "arn:*:events:*:*:rule/*{name}"
TARGET = "arn:*:events:*:*:rule/*{rule}"
OWN_TOPIC = "{topic_arn}"
API = "arn:*:apigateway:*::"
ZONE, CHANGE = "arn:*:route53:::hostedzone/{zone_id}", "arn:*:route53:::change/*"
ANY = "*"

# What the module gives these arguments. Buckets and topics of sources are the user's own.
SAMPLES = {
    "{function_name}": [f"{PREFIX}-ingest"],
    "{path}": ["/"],
    "{group_name}": ["default"],
    "{name}": [f"{PREFIX}-retry-0"],
    "{bucket}": [f"{PREFIX}-payloads-123456789012-eu-central-1"],
    "{alarm_name}": [f"{PREFIX}-late"],
    "{dashboard_name}": [PREFIX],
    "*{rule}": [f"{PREFIX}-source-uploads", f"own/{PREFIX}-source-uploads"],
    "{topic_arn}": ["arn:aws:sns:eu-central-1:123456789012:orders"],
    "{zone_id}": ["Z1"],
}
SAMPLES_OF = {
    LOGS: [f"arn:*:logs:*:*:log-group:/aws/lambda/{PREFIX}-ingest", f"arn:*:logs:*:*:log-group:/aws/vendedlogs/{PREFIX}-manage-api"],
    RULE: ["arn:*:events:*:*:rule/gridpost-source-uploads", "arn:*:events:*:*:rule/own/gridpost-source-uploads"],
}

# By type of resource: the resource that its calls need to be allowed for.
RESOURCES = {
    "aws_cloudformation_stack": STACK,
    "aws_cloudwatch_dashboard": DASHBOARD,
    "aws_cloudwatch_event_rule": RULE,
    "aws_cloudwatch_event_target": TARGET,
    "aws_cloudwatch_log_group": LOGS,
    "aws_cloudwatch_metric_alarm": ALARM,
    "aws_dynamodb_table": TABLE,
    "aws_iam_role": ROLE,
    "aws_iam_role_policy": "arn:*:iam::*:role/*",
    "aws_lambda_alias": FUNCTION,
    "aws_lambda_event_source_mapping": MAPPING,
    "aws_lambda_function": FUNCTION,
    "aws_lambda_function_event_invoke_config": FUNCTION,
    "aws_lambda_permission": FUNCTION,
    "aws_route53_record": ZONE,
    "aws_s3_bucket": BUCKET,
    "aws_s3_bucket_lifecycle_configuration": BUCKET,
    "aws_s3_bucket_notification": BUCKET,
    "aws_s3_bucket_ownership_controls": BUCKET,
    "aws_s3_bucket_policy": BUCKET,
    "aws_s3_bucket_public_access_block": BUCKET,
    "aws_s3_bucket_server_side_encryption_configuration": BUCKET,
    "aws_scheduler_schedule": SCHEDULE,
    "aws_sns_topic_subscription": OWN_TOPIC,
    "aws_sqs_queue": QUEUE,
}

# By operation: its permission, where that has another name, and the resource, where it is another one.
# Sources: service authorization reference of S3, of CloudWatch (DescribeAlarms), of CloudWatch Logs (DescribeLogGroups).
PERMISSIONS = {
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetBucketCors": "s3:GetBucketCORS",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:GetBucketNotificationConfiguration": "s3:GetBucketNotification",
    "s3:GetBucketReplication": "s3:GetReplicationConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutBucketNotificationConfiguration": "s3:PutBucketNotification",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    # Removing them is putting none.
    "s3:DeleteBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:DeleteBucketLifecycle": "s3:PutLifecycleConfiguration",
    "s3:DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls",
    "s3:DeleteBucketTagging": "s3:PutBucketTagging",
    "s3:DeletePublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "lambda:Invoke": "lambda:InvokeFunction",
}
EVERYWHERE = {"cloudwatch:DescribeAlarms", "logs:DescribeLogGroups", "sns:GetSubscriptionAttributes",
              "sns:SetSubscriptionAttributes", "sns:Unsubscribe"}

# What a deployer may be refused, and so no plan needs: who must keep the boundaries of roles does not get it.
REFUSABLE = {"iam:DeleteRolePermissionsBoundary"}


def of(service, names, *arns):
    """Actions of a service, each with the ARNs that it must be allowed for."""
    return [(f"{service}:{name}", arn) for name in names.split() for arn in arns]


def api(path):
    """API Gateway's permissions are methods of paths, which have generated ids: of a collection, its members, and their tags."""
    return (
        of("apigateway", "POST", API + path)
        + of("apigateway", "DELETE GET PATCH", f"{API}{path}/*")
        + of("apigateway", "DELETE POST PUT", API + "/tags/*")
    )


# What no record shows: what AWS asks beside the call itself, what later providers call, what the emulator can't do or the recorded
# deployment does not have. Each with its source.
FURTHER = {
    # A domain needs a certificate, and these types what the record shows of the others: methods of paths.
    "aws_apigatewayv2_api": api("/apis"),
    "aws_apigatewayv2_api_mapping": api("/domainnames/*/apimappings"),
    "aws_apigatewayv2_authorizer": api("/apis/*/authorizers"),
    "aws_apigatewayv2_domain_name": api("/domainnames"),
    "aws_apigatewayv2_integration": api("/apis/*/integrations"),
    "aws_apigatewayv2_route": api("/apis/*/routes"),
    # Access logs are delivered in the caller's name. API Gateway, "Configure logging for HTTP APIs".
    "aws_apigatewayv2_stage": api("/apis/*/stages") + of(
        "logs",
        "CreateLogDelivery DeleteLogDelivery DescribeResourcePolicies GetLogDelivery ListLogDeliveries "
        "PutResourcePolicy UpdateLogDelivery",
        ANY,
    ),
    # The function URL and its grants are made in the caller's name. CloudFormation registry, handlers of AWS::Lambda::Url and
    # AWS::Lambda::Permission; the provider, resource aws_cloudformation_stack.
    "aws_cloudformation_stack": of(
        "cloudformation",
        "DescribeStackEvents UpdateStack",
        STACK,
    ) + of(
        "lambda",
        "AddPermission CreateFunctionUrlConfig DeleteFunctionUrlConfig GetFunctionUrlConfig GetPolicy RemovePermission "
        "UpdateFunctionUrlConfig",
        "arn:*:lambda:*:*:function:*",
    ),
    # kms_key_arns; the emulator takes neither. The provider, resource aws_cloudwatch_log_group.
    "aws_cloudwatch_log_group": of("logs", "AssociateKmsKey DeleteRetentionPolicy DisassociateKmsKey", LOGS),
    # A change of protect_data. The provider, resource aws_dynamodb_table.
    "aws_dynamodb_table": of("dynamodb", "UpdateTable", TABLE),
    # A change of a description, of who may assume the role, of its boundary; the provider, resource aws_iam_role.
    "aws_iam_role": of(
        "iam",
        "PutRolePermissionsBoundary UpdateAssumeRolePolicy UpdateRole UpdateRoleDescription",
        ROLE,
    ),
    # New code, the role, and the network with vpc. Lambda developer guide, execution roles, and VPC.
    "aws_lambda_function": of("lambda", "ListTags UpdateFunctionCode", FUNCTION)
    + of("iam", "PassRole", "arn:*:iam::*:role/*")
    + of("ec2", "DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets DescribeVpcs", ANY),
    "aws_lambda_function_event_invoke_config": of("lambda", "UpdateFunctionEventInvokeConfig", FUNCTION),
    # A domain with a zone_id. The provider, resource aws_route53_record.
    "aws_route53_record": of("route53", "ChangeResourceRecordSets GetHostedZone ListResourceRecordSets", ZONE)
    + of("route53", "GetChange", CHANGE),
    # Providers from 6.23 on tag by S3 Control (hashicorp/terraform-provider-aws pull request 45251). The last two where a bucket is
    # emptied before it is destroyed (protect_data).
    "aws_s3_bucket": of("s3", "ListTagsForResource TagResource UntagResource ListBucketVersions", BUCKET)
    + of("s3", "DeleteObject DeleteObjectVersion", BUCKET + "/*"),
    "aws_scheduler_schedule": of("scheduler", "UpdateSchedule", SCHEDULE) + of("iam", "PassRole", "arn:*:iam::*:role/*"),
    "aws_sqs_queue": of("sqs", "GetQueueUrl", QUEUE),
}


def of_record():
    """What the provider was seen to call, by type of resource: pairs of action and ARN."""
    needed = {}
    for kind, calls in json.loads(RECORD.read_text())["calls"].items():
        for call in calls:
            method, _, path = call.partition(" ")
            action = PERMISSIONS.get(method, method)
            arn = API + path if path else ANY if action in EVERYWHERE else RESOURCES[kind]
            needed.setdefault(kind, set()).add((action, arn))
    return needed


def all_needed():
    """The record and what is known besides."""
    needed = of_record()
    for kind, pairs in FURTHER.items():
        needed.setdefault(kind, set()).update(
            (action, ANY if action in EVERYWHERE else arn) for action, arn in pairs
        )
    return {kind: sorted(needed[kind]) for kind in sorted(needed)}


ALL = all_needed()
# What only modules/aws-source makes. IAM takes no policy that is so long as both are together.
OF_SOURCES = {"aws_cloudwatch_event_rule", "aws_cloudwatch_event_target", "aws_s3_bucket_notification", "aws_sns_topic_subscription"}
NEEDED = {kind: pairs for kind, pairs in ALL.items() if kind not in OF_SOURCES}
NEEDED_OF_SOURCES = {kind: pairs for kind, pairs in ALL.items() if kind in OF_SOURCES}


def samples(kind, arn):
    """ARNs as the module makes them of a template."""
    if kind == "aws_s3_bucket_notification":
        return ["arn:*:s3:::my-uploads"]
    found = SAMPLES_OF.get(arn, [arn])
    for placeholder, values in SAMPLES.items():
        found = [text.replace(placeholder, value) for text in found for value in values]
    return [re.sub(r"(function|role)(:|/)\*$", rf"\1\2{PREFIX}-ingest", text) for text in found]

# What AWS can't bound by a name, and why. Everything else must name the prefix.
UNBOUNDED = {
    "apigateway": "ids of APIs are generated, and are not known before",
    "cloudwatch": "descriptions of alarms and of a network have no resource",
    "route53": "ids of zones and changes are generated; give your zone's",
    "lambda:event-source-mapping": "ids are generated; mappings themselves are bound by their function, tags can't be",
    "s3": "buckets of sources are yours; give their ARNs",
    "sns": "topics of sources are yours; give their ARNs",
    "logs": "deliveries of access logs, resource policies and the search for groups have no resource",
}


def as_list(value):
    """IAM writes one as a text and several as a list."""
    return value if isinstance(value, list) else [value]


def allows(statement, action, arn):
    """Whether a statement allows an action for a resource. A star is all that the policy has of patterns."""
    resources = as_list(statement["Resource"])
    return action in statement["Action"] and any(fnmatch.fnmatchcase(arn, resource) for resource in resources)


def unbounded(statement, resource):
    """Why a resource of a statement that does not name the prefix may be that wide; None where it may not."""
    service = statement["Action"][0].split(":")[0]
    function = statement.get("Condition", {}).get("ArnLike", {}).get("lambda:FunctionArn", "")
    if service == "lambda":
        is_tag = ":event-source-mapping:" in resource
        return UNBOUNDED["lambda:event-source-mapping"] if is_tag or f":function:{PREFIX}-" in function else None
    return UNBOUNDED.get(service)


def problems(policy, types, table=None):
    """What is wrong with the policy for a deployment that has resources of these types."""
    table = NEEDED if table is None else table
    statements = policy["Statement"]
    granted = {action for statement in statements for action in statement["Action"]}
    found = [f"{kind}: not in the table of {Path(__file__).name}" for kind in sorted(types - table.keys())]
    for kind in sorted(types & table.keys()):
        for action, arn in table[kind]:
            for sample in samples(kind, arn):
                if not any(allows(statement, action, sample) for statement in statements):
                    found.append(f"{kind}: {action} is not allowed for {sample}")
    needed = {action for pairs in table.values() for action, _ in pairs}
    found += [f"{action}: no resource of the module needs it" for action in sorted(granted - needed)]
    for statement in statements:
        for action in statement["Action"]:
            if "*" in action:
                found.append(f"{statement['Sid']}: {action} is a pattern of actions")
        for resource in as_list(statement["Resource"]):
            bounded = re.search(rf"[:/]{PREFIX}(-|$)", resource)
            if not bounded and not unbounded(statement, resource):
                found.append(f"{statement['Sid']}: {resource} could be bounded by the prefix")
    services = [s for s in statements if "iam:PassRole" in s["Action"]]
    if not all("iam:PassedToService" in s.get("Condition", {}).get("StringEquals", {}) for s in services):
        found.append("iam:PassRole: not bounded to services")
    longest = json.dumps(policy, separators=(",", ":")).replace(f"{PREFIX}-", "x" * PREFIX_MAX + "-")
    if len(longest) > CHARACTERS_MAX:
        found.append(f"{len(longest)} characters with the longest prefix; IAM takes {CHARACTERS_MAX}")
    return found


def types_of_module():
    """Types of resources in the module's own files."""
    return types_of([*INFRA.glob("*.tf"), *INFRA.glob("modules/function/*.tf")])


def types_of_sources():
    """Types of resources that only the module of AWS sources has."""
    return types_of(INFRA.glob("modules/aws-source/*.tf")) - NEEDED.keys()


def types_of(files):
    """Types of resources in files."""
    text = "\n".join(path.read_text() for path in files)
    return set(re.findall(r'^resource "([a-z0-9_]+)"', text, re.M))


def types_of_plan(path):
    """Types of resources that a plan changes, of AWS's provider."""
    changes = json.loads(Path(path).read_text()).get("resource_changes", [])
    return {change["type"] for change in changes if change["mode"] == "managed" and change["type"].startswith("aws_")}


def written(needed):
    """Actions with their ARNs by type of resource, as JSON with a line for each."""
    kinds = []
    for kind, pairs in needed.items():
        lines = ",\n".join("  " + json.dumps(pair) for pair in pairs if pair[0] not in REFUSABLE)
        kinds.append(f' "{kind}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(kinds) + "\n}\n"


def main(arguments):
    """Prints what is wrong."""
    if arguments[:1] == ["--write"]:
        NEEDED_FILE.write_text(written(ALL))
        return 0
    types = types_of_module()
    if arguments[:1] == ["--plan"]:
        types |= types_of_plan(arguments[1]) - NEEDED_OF_SOURCES.keys()
    policy = json.loads((INFRA / "deployer-policy.json").read_text())
    found = problems(policy, types)
    of_sources = json.loads((INFRA / "modules/aws-source/deployer-policy.json").read_text())
    found += problems(of_sources, types_of_sources(), NEEDED_OF_SOURCES)
    if not NEEDED_FILE.exists() or NEEDED_FILE.read_text() != written(ALL):
        found.append(f"{NEEDED_FILE.name} is not as it would be written; run python3 infra/deployer_policy.py --write")
    print("\n".join(found) or f"deployer-policy.json fits {len(types)} types of resources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
