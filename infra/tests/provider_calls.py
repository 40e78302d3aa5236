#!/usr/bin/env python3
"""Records which operations of AWS the provider calls to create, read, change and delete what the module makes, by type of resource:
it applies the module to an emulator with nearly everything switched on, changes it, destroys it, and reads the provider's log.

    python3 infra/tests/provider_calls.py http://127.0.0.1:4566     writes provider-calls.json

`cargo run -- up` prints the emulator's address. The deployment's prefix is `calls`, so one beside it is left alone. Needs two
minutes, and Terraform with the module's providers.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent
RECORD = INFRA.parent / "cli/ops/src/doctor/provider-calls.json"
SERVICES = (
    "acm apigatewayv2 cloudformation cloudwatch dynamodb ec2 events iam kms lambda logs route53 s3 s3control scheduler sns sqs sts"
)
ROOT = """
terraform {{
  required_providers {{
    aws = {{
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }}
  }}
}}

provider "aws" {{
  region                      = "us-east-1"
  access_key                  = "test"
  secret_key                  = "test"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  s3_use_path_style           = true

  endpoints {{
    {endpoints}
  }}
}}

variable "changed" {{
  type = bool
}}

resource "aws_iam_policy" "boundary" {{
  name   = "calls-boundary"
  policy = jsonencode({{ Version = "2012-10-17", Statement = [{{ Effect = "Allow", Action = "*", Resource = "*" }}] }})
}}

resource "aws_sns_topic" "source" {{
  name = "calls-source"
}}

resource "aws_s3_bucket" "source" {{
  bucket = "calls-source"
}}

module "gridpost" {{
  source = "{infra}"

  name_prefix                 = "calls"
  functions_dir               = "{functions}"
  aws_endpoint_url            = "{url}"
  architecture                = "x86_64"
  versions                    = true
  aws_sources                 = true
  protect_data                = false
  alarms                      = "ALL"
  dashboard                   = true
  publish_access_logs         = true
  publish_front_door          = var.changed ? "FUNCTION_URL" : "HTTP_API"
  publish_authorization       = var.changed ? "KEYS" : "JWT"
  publish_jwt_issuer          = var.changed ? null : "https://login.example.com/v2.0"
  publish_jwt_audience        = var.changed ? [] : ["gridpost"]
  permissions_boundary_arn    = var.changed ? null : aws_iam_policy.boundary.arn
  tags                        = var.changed ? {{ now = "changed" }} : {{ once = "made" }}
  log_retention_days          = var.changed ? 14 : 30
  memory_mb                   = var.changed ? {{ ingest = 1024 }} : {{}}
  ingest_reserved_concurrency = var.changed ? null : 5
  dispatch_timeout_seconds    = var.changed ? 240 : 210
  retry_concurrency           = var.changed ? 40 : 50
  alarm_due_retries           = var.changed ? 2000 : 1000
  publish_rate_limit          = var.changed ? 400 : 500
}}

module "source" {{
  source   = "{infra}//modules/aws-source"
  for_each = {{
    rule   = {{ event_bridge = {{ event_pattern = jsonencode({{ source = ["aws.ec2"] }}) }} }}
    topic  = {{ sns = {{ topic_arn = aws_sns_topic.source.arn, filter_policy = jsonencode({{ of = [var.changed ? "a" : "b"] }}) }} }}
    bucket = {{ s3 = {{ bucket = aws_s3_bucket.source.bucket, prefix = var.changed ? "in/" : "to/" }} }}
  }}

  gridpost     = module.gridpost.aws_sources
  name         = each.key
  topic        = each.key
  event_bridge = lookup(each.value, "event_bridge", null)
  sns          = lookup(each.value, "sns", null)
  s3           = lookup(each.value, "s3", null)
}}
"""
# Services by the names of their permissions, where the SDK's differ.
PERMISSIONS = {"API Gateway": "apigateway", "ApiGatewayV2": "apigateway", "CloudWatch Logs": "logs", "EventBridge": "events"}


def recorded(log):
    """Operations by type of resource, of the provider's log."""
    calls = {}
    # An entry has several lines where a request's body has.
    for text in re.split(r"^(?=\d{4}-\d\d-\d\dT)", log, flags=re.MULTILINE):
        if "HTTP Request Sent" not in text:
            continue
        entry = {name: value.strip('"') for name, value in re.findall(r'(\S+?)=("[^"]*"|\S+)', text)}
        kind = entry.get("tf_resource_type", "")
        # The provider's own first questions, and what the configuration needs beside the module.
        if not kind.startswith("aws_") or kind in ("aws_iam_policy", "aws_sns_topic"):
            continue
        service = PERMISSIONS.get(entry["rpc.service"], entry["rpc.service"].replace(" ", "").lower())
        if service == "apigateway":
            path = re.sub(r"https?://[^/]+/v2", "", entry["http.url"]).split("?")[0]
            # Ids are generated, so each is a star.
            path = re.sub(r"^(/tags|/[^/]+(?:/[^/]+/[^/]+)?)/[^/]+$", r"\1/*", re.sub(r"^/([^/]+)/[^/]+/", r"/\1/*/", path))
            operation = f'{entry["http.method"]} {path}'
        else:
            operation = entry["rpc.method"]
        calls.setdefault(kind, set()).add(f"{service}:{operation}")
    return {kind: sorted(calls[kind]) for kind in sorted(calls)}


def main(url):
    """Applies, changes, destroys and writes."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "provider.log")
        for program in INFRA.glob("tests/functions/*"):
            with zipfile.ZipFile(Path(folder, f"{program.name}.zip"), "w") as zipped:
                zipped.writestr("bootstrap", "#!/bin/sh\n")
        endpoints = "\n    ".join(f'{service} = "{url}"' for service in SERVICES.split())
        Path(folder, "main.tf").write_text(ROOT.format(infra=INFRA, functions=folder, url=url, endpoints=endpoints))
        logged = {"TF_LOG_PATH": str(log), "TF_LOG_PROVIDER": "DEBUG", "CHECKPOINT_DISABLE": "1", "NO_PROXY": "127.0.0.1"}

        def terraform(*arguments, **more):
            subprocess.run(["terraform", *arguments], cwd=folder, check=True, env={**os.environ, **more})

        terraform("init", "-input=false", "-no-color")
        common = ("-input=false", "-no-color", "-auto-approve", "-parallelism=40")
        try:
            terraform("apply", *common, "-var", "changed=false", **logged)
            terraform("apply", *common, "-var", "changed=true", **logged)
        finally:
            terraform("destroy", *common, "-var", "changed=true", **logged)
            shutil.copy(log, os.environ.get("KEEP_LOG", os.devnull))
        lock = Path(folder, ".terraform.lock.hcl").read_text()
        record = {"provider": re.search(r'version\s+= "(.*?)"', lock)[1], "calls": recorded(log.read_text())}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
