#!/usr/bin/env python3
"""Holds deployer-policy.json, what Terraform must be allowed, to what the module makes, and the one of
modules/aws-source to what that makes besides.

    python3 infra/deployer_policy.py                every resource type of the module's files
    python3 infra/deployer_policy.py --plan FILE    and of a plan (terraform show -json)

Exits with 1 where the policy allows too little or too much. Actions are those that the AWS provider calls to
create, read, change, tag and delete a resource, by its source and AWS's service authorization reference.
"""

import fnmatch
import json
import re
import sys
from pathlib import Path

INFRA = Path(__file__).resolve().parent
PREFIX = "gridpost"
# IAM's limit for a managed policy, without white space; prefixes have at most 20 characters.
CHARACTERS_MAX, PREFIX_MAX = 6_144, 20

ACCOUNT = "eu-central-1:123456789012"
FUNCTION = f"arn:aws:lambda:{ACCOUNT}:function:{PREFIX}-ingest"
MAPPING = f"arn:aws:lambda:{ACCOUNT}:event-source-mapping:3f2a"
ROLE = f"arn:aws:iam::123456789012:role/{PREFIX}-ingest-eu-central-1"
QUEUE = f"arn:aws:sqs:{ACCOUNT}:{PREFIX}-retry-0"
TABLE = f"arn:aws:dynamodb:{ACCOUNT}:table/{PREFIX}-config"
BUCKET = f"arn:aws:s3:::{PREFIX}-payloads-123456789012-eu-central-1"
LOGS = f"arn:aws:logs:{ACCOUNT}:log-group:/aws/lambda/{PREFIX}-ingest"
ACCESS_LOGS = f"arn:aws:logs:{ACCOUNT}:log-group:/aws/vendedlogs/{PREFIX}-manage-api"
ALARM = f"arn:aws:cloudwatch:{ACCOUNT}:alarm:{PREFIX}-late"
DASHBOARD = f"arn:aws:cloudwatch::123456789012:dashboard/{PREFIX}"
SCHEDULE = f"arn:aws:scheduler:{ACCOUNT}:schedule/default/{PREFIX}-wake"
RULE = f"arn:aws:events:{ACCOUNT}:rule/{PREFIX}-source-uploads"
RULE_OF_BUS = f"arn:aws:events:{ACCOUNT}:rule/own/{PREFIX}-source-uploads"
OWN_BUCKET, OWN_TOPIC = "arn:aws:s3:::my-uploads", f"arn:aws:sns:{ACCOUNT}:orders"
STACK = f"arn:aws:cloudformation:{ACCOUNT}:stack/{PREFIX}-publish-by-url/3f2a"
API = "arn:aws:apigateway:eu-central-1::"
ZONE, CHANGE = "arn:aws:route53:::hostedzone/Z1", "arn:aws:route53:::change/C1"
ANY = "*"


def of(service, names, *arns):
    """Actions of a service, each with the ARNs that it must be allowed for."""
    return [(f"{service}:{name}", arn) for name in names.split() for arn in arns]


def api(*paths):
    """API Gateway's permissions are methods of paths, which have generated ids."""
    return of("apigateway", "DELETE GET PATCH POST PUT", *(API + path for path in paths), API + "/tags/x")


BUCKET_READS = (
    "GetAccelerateConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging GetBucketPolicy "
    "GetBucketObjectLockConfiguration GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite "
    "GetEncryptionConfiguration GetLifecycleConfiguration GetReplicationConfiguration"
)
NEEDED = {
    "aws_apigatewayv2_api": api("/apis", "/apis/a"),
    "aws_apigatewayv2_api_mapping": api("/domainnames/d/apimappings", "/domainnames/d/apimappings/m"),
    "aws_apigatewayv2_authorizer": api("/apis/a/authorizers", "/apis/a/authorizers/b"),
    "aws_apigatewayv2_domain_name": api("/domainnames", "/domainnames/d"),
    "aws_apigatewayv2_integration": api("/apis/a/integrations", "/apis/a/integrations/b"),
    "aws_apigatewayv2_route": api("/apis/a/routes", "/apis/a/routes/b"),
    # What delivers access logs to a log group is made by CloudWatch in the caller's name.
    "aws_apigatewayv2_stage": api("/apis/a/stages", "/apis/a/stages/b") + of(
        "logs",
        "CreateLogDelivery DeleteLogDelivery DescribeResourcePolicies GetLogDelivery ListLogDeliveries "
        "PutResourcePolicy UpdateLogDelivery",
        ANY,
    ),
    "aws_cloudformation_stack": of(
        "cloudformation",
        "CreateStack DeleteStack DescribeStackEvents DescribeStacks GetTemplate UpdateStack",
        STACK,
    )
    # The function URL and its grants, in the caller's name.
    + of(
        "lambda",
        "AddPermission CreateFunctionUrlConfig DeleteFunctionUrlConfig GetFunctionUrlConfig GetPolicy RemovePermission "
        "UpdateFunctionUrlConfig",
        FUNCTION,
    ),
    "aws_cloudwatch_dashboard": of("cloudwatch", "DeleteDashboards GetDashboard PutDashboard", DASHBOARD),
    "aws_cloudwatch_log_group": of(
        "logs",
        "AssociateKmsKey CreateLogGroup DeleteLogGroup DeleteRetentionPolicy DisassociateKmsKey ListTagsForResource "
        "PutRetentionPolicy TagResource UntagResource",
        LOGS,
        ACCESS_LOGS,
    ) + of("logs", "DescribeLogGroups", ANY),
    "aws_cloudwatch_metric_alarm": of(
        "cloudwatch", "DeleteAlarms DescribeAlarms ListTagsForResource PutMetricAlarm TagResource UntagResource", ALARM
    ),
    "aws_dynamodb_table": of(
        "dynamodb",
        "CreateTable DeleteTable DescribeContinuousBackups DescribeTable DescribeTimeToLive ListTagsOfResource "
        "TagResource UntagResource UpdateContinuousBackups UpdateTable UpdateTimeToLive",
        TABLE,
    ),
    "aws_iam_role": of(
        "iam",
        "CreateRole DeleteRole DeleteRolePermissionsBoundary GetRole ListAttachedRolePolicies "
        "ListInstanceProfilesForRole ListRolePolicies PutRolePermissionsBoundary TagRole UntagRole "
        "UpdateAssumeRolePolicy UpdateRole",
        ROLE,
    ),
    "aws_iam_role_policy": of("iam", "DeleteRolePolicy GetRolePolicy PutRolePolicy", ROLE),
    "aws_lambda_alias": of("lambda", "CreateAlias DeleteAlias GetAlias UpdateAlias", FUNCTION),
    "aws_lambda_event_source_mapping": of(
        "lambda",
        "CreateEventSourceMapping DeleteEventSourceMapping GetEventSourceMapping UpdateEventSourceMapping",
        MAPPING,
    ) + of("lambda", "ListTags TagResource UntagResource", MAPPING),
    "aws_lambda_function": of(
        "lambda",
        "CreateFunction DeleteFunction DeleteFunctionConcurrency GetFunction GetFunctionCodeSigningConfig "
        "GetFunctionConfiguration ListTags ListVersionsByFunction PublishVersion PutFunctionConcurrency TagResource "
        "UntagResource UpdateFunctionCode UpdateFunctionConfiguration",
        FUNCTION,
    ) + of("iam", "PassRole", ROLE)
    # Where the function is in a VPC.
    + of("ec2", "DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets DescribeVpcs", ANY),
    "aws_lambda_function_event_invoke_config": of(
        "lambda",
        "DeleteFunctionEventInvokeConfig GetFunctionEventInvokeConfig PutFunctionEventInvokeConfig "
        "UpdateFunctionEventInvokeConfig",
        FUNCTION,
    ),
    "aws_lambda_permission": of("lambda", "AddPermission GetPolicy RemovePermission", FUNCTION),
    "aws_route53_record": of("route53", "ChangeResourceRecordSets GetHostedZone ListResourceRecordSets", ZONE)
    + of("route53", "GetChange", CHANGE),
    # The last two where it is emptied before it is destroyed (protect_data).
    "aws_s3_bucket": of(
        "s3", f"CreateBucket DeleteBucket ListBucket ListBucketVersions PutBucketTagging {BUCKET_READS}", BUCKET
    ) + of("s3", "DeleteObject DeleteObjectVersion", f"{BUCKET}/key"),
    "aws_s3_bucket_lifecycle_configuration": of("s3", "GetLifecycleConfiguration PutLifecycleConfiguration", BUCKET),
    "aws_s3_bucket_ownership_controls": of("s3", "GetBucketOwnershipControls PutBucketOwnershipControls", BUCKET),
    "aws_s3_bucket_policy": of("s3", "DeleteBucketPolicy GetBucketPolicy PutBucketPolicy", BUCKET),
    "aws_s3_bucket_public_access_block": of("s3", "GetBucketPublicAccessBlock PutBucketPublicAccessBlock", BUCKET),
    "aws_s3_bucket_server_side_encryption_configuration": of(
        "s3", "GetEncryptionConfiguration PutEncryptionConfiguration", BUCKET
    ),
    "aws_scheduler_schedule": of("scheduler", "CreateSchedule DeleteSchedule GetSchedule UpdateSchedule", SCHEDULE)
    + of("iam", "PassRole", ROLE),
    "aws_sqs_queue": of(
        "sqs",
        "CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags SetQueueAttributes TagQueue UntagQueue",
        QUEUE,
    ),
}

# What modules/aws-source makes besides. IAM takes no policy that is so long as both are together.
NEEDED_OF_SOURCES = {
    "aws_cloudwatch_event_rule": of(
        "events", "DeleteRule DescribeRule ListTagsForResource PutRule TagResource UntagResource", RULE, RULE_OF_BUS
    ),
    "aws_cloudwatch_event_target": of("events", "ListTargetsByRule PutTargets RemoveTargets", RULE, RULE_OF_BUS),
    "aws_s3_bucket_notification": of("s3", "GetBucketNotification PutBucketNotification", OWN_BUCKET),
    "aws_sns_topic_subscription": of(
        "sns", "GetSubscriptionAttributes SetSubscriptionAttributes Subscribe Unsubscribe", OWN_TOPIC
    ),
}

# What AWS can't bound by a name, and why. Everything else must name the prefix.
UNBOUNDED = {
    "apigateway": "ids of APIs are generated, and are not known before",
    "ec2": "descriptions of a network have no resource",
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
            if not any(allows(statement, action, arn) for statement in statements):
                found.append(f"{kind}: {action} is not allowed for {arn}")
    needed = {action for kind in table for action, _ in table[kind]}
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


def main(arguments):
    """Prints what is wrong."""
    types = types_of_module()
    if arguments[:1] == ["--plan"]:
        types |= types_of_plan(arguments[1]) - NEEDED_OF_SOURCES.keys()
    policy = json.loads((INFRA / "deployer-policy.json").read_text())
    found = problems(policy, types)
    of_sources = json.loads((INFRA / "modules/aws-source/deployer-policy.json").read_text())
    found += problems(of_sources, types_of_sources(), NEEDED_OF_SOURCES)
    print("\n".join(found) or f"deployer-policy.json fits {len(types)} types of resources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
