# One function of Gridpost, with its role (exactly the given statements) and its log group.

locals {
  account        = var.settings.account
  log_group_name = coalesce(var.log_group_name, "/aws/lambda/${var.name}")
  log_group_arn  = "arn:${local.account.partition}:logs:${local.account.region}:${local.account.id}:log-group:${local.log_group_name}"

  # No logs:CreateLogGroup: the module creates the group, with a retention.
  log_statement = {
    sid       = "WriteOwnLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${local.log_group_arn}:*"]
  }

  # In a VPC Lambda creates network interfaces with the function's own permissions, and removes them so, too: up to 20 minutes after
  # the function has left the VPC. They can't be limited to single interfaces, which don't exist yet or can't be named.
  network_statements = [{
    Sid    = "ManageNetworkInterfaces"
    Effect = "Allow"
    Action = [
      "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
      "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
    ]
    Resource = ["*"]
    }, {
    # Denies these actions to the program itself: Lambda's own calls carry no function ARN.
    Sid    = "NotByTheFunctionItself"
    Effect = "Deny"
    Action = [
      "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
      "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
    ]
    Resource  = ["*"]
    Condition = { ArnEquals = { "lambda:SourceFunctionArn" = [local.function_arn] } }
  }]

  # Lambda's daemon sends segments with the function's own permissions. X-Ray has no resources to restrict this to.
  trace_statements = [for statement in [{
    Sid      = "SendTraces"
    Effect   = "Allow"
    Action   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    Resource = ["*"]
  }] : statement if var.settings.tracing]

  function_arn = "arn:${local.account.partition}:lambda:${local.account.region}:${local.account.id}:function:${var.name}"

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat([
      for statement in concat(var.statements, [local.log_statement]) : merge(
        {
          Sid      = statement.sid
          Effect   = "Allow"
          Action   = statement.actions
          Resource = statement.resources
        },
        try(statement.leading_keys, null) == null ? {} : {
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = statement.leading_keys } }
        },
        try(statement.via_service, null) == null ? {} : {
          Condition = { StringEquals = { "kms:ViaService" = statement.via_service } }
        },
        try(statement.via_function_url, null) == null ? {} : {
          Condition = { Bool = { "lambda:InvokedViaFunctionUrl" = tostring(statement.via_function_url) } }
        },
        try(statement.token_audiences, null) == null ? {} : {
          Condition = {
            "ForAllValues:StringEquals" = { "sts:IdentityTokenAudience" = statement.token_audiences }
            # As long as the functions ask for.
            NumericLessThanEquals = { "sts:DurationSeconds" = "300" }
          }
        },
      )
    ], local.trace_statements)
  })

  # The function's own, or the one that it shares.
  log_group = coalesce(one(aws_cloudwatch_log_group.this[*].name), local.log_group_name)

  # The alias that exists, if any.
  alias = concat(aws_lambda_alias.live, aws_lambda_alias.shifted)

  build_target = var.settings.architecture == "arm64" ? "--arm64" : "--x86-64"
}

resource "aws_cloudwatch_log_group" "this" {
  # checkov:skip=CKV_AWS_158:encrypted with CloudWatch's own key; log lines hold no payloads and no secrets
  # checkov:skip=CKV_AWS_338:the operator decides how long (log_retention_days)
  count = var.log_group_name == null ? 1 : 0

  name              = local.log_group_name
  retention_in_days = var.settings.log_retention_days
  kms_key_id        = var.settings.log_kms_key_arn
  tags              = var.settings.tags
}

resource "aws_iam_role" "this" {
  # Role names are global in an account: the region tells two deployments apart.
  name                 = "${var.name}-${local.account.region}"
  description          = "What ${var.name} may do"
  path                 = var.settings.iam_path
  permissions_boundary = var.settings.permissions_boundary_arn
  tags                 = var.settings.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Lambda"
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "this" {
  name = "function"
  role = aws_iam_role.this.id

  policy = local.policy

  lifecycle {
    # IAM's limit for all inline policies of a role, without white space.
    precondition {
      condition     = length(local.policy) <= 10240
      error_message = "The policy of ${var.name} would have ${length(local.policy)} characters, and IAM takes 10,240: name fewer buckets in dead_letter_bucket_arns or fewer (or shorter) resource_destinations, use a shorter name_prefix or fewer retry queues."
    }
  }
}

# A policy of its own, so that it goes only after the function has changed. With empty lists in vpc the function is out of the VPC,
# and Lambda may still remove the interfaces that it has left.
resource "aws_iam_role_policy" "network" {
  count = var.vpc == null ? 0 : 1

  name   = "network"
  role   = aws_iam_role.this.id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.network_statements })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_lambda_function" "this" {
  # checkov:skip=CKV_AWS_50:the functions log each attempt themselves; tracing costs per invocation and is optional (tracing)
  # checkov:skip=CKV_AWS_115:reserved concurrency fails on accounts with a low quota; the event source mappings limit it
  # checkov:skip=CKV_AWS_116:no asynchronous invocation carries a delivery; queues have the poison queue
  # checkov:skip=CKV_AWS_117:inside a VPC an event subscription could reach that network's hosts (variable vpc)
  # checkov:skip=CKV_AWS_173:no secret is in the environment; Lambda encrypts it with its own key
  # checkov:skip=CKV_AWS_272:whoever can deploy could sign as well
  function_name                  = var.name
  description                    = var.description
  role                           = aws_iam_role.this.arn
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.settings.architecture]
  memory_size                    = var.program.memory_mb
  timeout                        = var.program.timeout_seconds
  reserved_concurrent_executions = var.reserved_concurrency
  filename                       = var.program.package.file
  s3_bucket                      = var.program.package.bucket
  s3_key                         = var.program.package.key
  source_code_hash               = var.program.package.bucket == null ? try(filebase64sha256(var.program.package.file), null) : var.program.package.sha256
  publish                        = var.settings.versions
  tags                           = var.settings.tags

  environment {
    variables = var.environment
  }

  # Text, because the functions write JSON lines themselves, including metrics in embedded metric format. Lambda's JSON format
  # would filter these lines and wrap those it does not know.
  logging_config {
    log_format = "Text"
    log_group  = local.log_group
  }

  # Without it Lambda uses its default, PassThrough.
  dynamic "tracing_config" {
    for_each = var.settings.tracing ? ["Active"] : []

    content {
      mode = tracing_config.value
    }
  }

  dynamic "vpc_config" {
    for_each = try(length(var.vpc.subnet_ids), 0) == 0 ? [] : [var.vpc]

    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids

      ipv6_allowed_for_dual_stack = vpc_config.value.ipv6
    }
  }

  lifecycle {
    precondition {
      condition     = var.program.package.bucket != null || try(fileexists(var.program.package.file), false)
      error_message = "${coalesce(var.program.package.file, "no zip")} does not exist. Build the functions first: cargo lambda build --release ${local.build_target} --output-format zip -p gridpost-programs (or set functions_dir to where the zips are, or functions_bucket)."
    }

    # Without it Terraform would not notice another program under the same key.
    precondition {
      condition     = var.program.package.bucket == null || var.program.package.sha256 != null
      error_message = "functions_bucket.sha256 has no entry for ${coalesce(var.program.package.key, "this program")}."
    }

    precondition {
      condition     = var.program.package.bucket != null || var.program.package.sha256 == null || try(filebase64sha256(var.program.package.file) == var.program.package.sha256, false)
      error_message = "${coalesce(var.program.package.file, "no zip")} is not what functions_sha256 says: its hash is ${try(filebase64sha256(var.program.package.file), "unknown")}, not ${coalesce(var.program.package.sha256, "none")}."
    }

    precondition {
      condition     = var.settings.versions || !var.settings.rollout
      error_message = "rollout needs versions = true: without versions there is nothing to shift ${var.name} between."
    }

    # Lambda's limit is 4 KB for names and values together.
    precondition {
      condition     = length(join("", concat(keys(var.environment), values(var.environment)))) <= 4096
      error_message = "The environment of ${var.name} is over Lambda's limit of 4096 bytes: name fewer networks in endpoint_allowed_networks, fewer resource_destinations or endpoint_secrets, or use a shorter name_prefix or fewer retry queues."
    }
  }

  # A function must not run before it has its permissions and its log group.
  depends_on = [aws_iam_role_policy.this, aws_iam_role_policy.network]
}

# Everything invokes the function through the alias live, so one change switches versions. Either Terraform moves the alias, or
# `gridpost rollout` does. ignore_changes can't depend on a variable, so there are two resources, and one of them exists. A
# deployment changes from one to the other with `terraform state mv` (docs/upgrades.md). If that is forgotten, Terraform creates
# the second before it destroys the first, AWS refuses a second alias with that name, and nothing changes.
resource "aws_lambda_alias" "live" {
  count = var.settings.versions && !var.settings.rollout ? 1 : 0

  name             = "live"
  description      = "The version that is invoked; Terraform leads it"
  function_name    = aws_lambda_function.this.function_name
  function_version = coalesce(var.program.live_version, aws_lambda_function.this.version)

  lifecycle {
    create_before_destroy = true
  }
}

# The command line shifts only aliases with this description (cli/ops/src/rollout/plan.rs).
resource "aws_lambda_alias" "shifted" {
  count = var.settings.versions && var.settings.rollout ? 1 : 0

  name             = "live"
  description      = "The version that is invoked; gridpost rollout leads it"
  function_name    = aws_lambda_function.this.function_name
  function_version = aws_lambda_function.this.version

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [function_version, routing_config]

    precondition {
      condition     = var.program.live_version == null
      error_message = "live_versions has ${var.name}, whose alias Terraform leaves alone with rollout: gridpost rollout --function NAME=VERSION leads it there."
    }
  }

  depends_on = [aws_lambda_alias.live]
}
