# One function of Gridpost: the function itself, its role with exactly the statements given, its log group.

data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

locals {
  log_group_name = "/aws/lambda/${var.name}"
  log_group_arn  = "arn:${data.aws_partition.current.partition}:logs:${var.region}:${data.aws_caller_identity.current.account_id}:log-group:${local.log_group_name}"

  # No logs:CreateLogGroup: the group is made here, with a retention.
  log_statement = {
    sid       = "WriteOwnLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${local.log_group_arn}:*"]
  }

  build_target = var.architecture == "arm64" ? "--arm64" : "--x86-64"
}

resource "aws_cloudwatch_log_group" "this" {
  # checkov:skip=CKV_AWS_158:encrypted by CloudWatch's own key; log lines hold no payloads and no secrets
  # checkov:skip=CKV_AWS_338:how long is the operator's decision (log_retention_days)
  name              = local.log_group_name
  retention_in_days = var.log_retention_days
}

resource "aws_iam_role" "this" {
  # Role names are global in an account: the region keeps two deployments apart.
  name        = "${var.name}-${var.region}"
  description = "What ${var.name} may do"

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

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
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
      )
    ]
  })
}

resource "aws_lambda_function" "this" {
  # checkov:skip=CKV_AWS_50:the functions log each attempt themselves; tracing would be paid per event
  # checkov:skip=CKV_AWS_115:reserved concurrency fails on accounts with a low quota; the event source mappings limit it
  # checkov:skip=CKV_AWS_116:no asynchronous invocation carries a delivery; queues have the poison queue
  # checkov:skip=CKV_AWS_117:inside a VPC the hosts of that network would be within reach of a subscription
  # checkov:skip=CKV_AWS_173:no secret is in the environment; Lambda encrypts it by its own key
  # checkov:skip=CKV_AWS_272:whoever can deploy could sign as well
  function_name    = var.name
  description      = var.description
  role             = aws_iam_role.this.arn
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.architecture]
  memory_size      = var.memory_mb
  timeout          = var.timeout_seconds
  filename         = var.zip_file
  source_code_hash = try(filebase64sha256(var.zip_file), null)

  environment {
    variables = var.environment
  }

  # Text, because the functions write JSON lines themselves, metrics in embedded metric format among them: Lambda's JSON format
  # would put its own filter in front of theirs and its own shape around what it does not know.
  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.this.name
  }

  lifecycle {
    precondition {
      condition     = fileexists(var.zip_file)
      error_message = "${var.zip_file} does not exist. Build the functions first: cargo lambda build --release ${local.build_target} --output-format zip (or set functions_dir to where the zips are)."
    }

    # Lambda's limit is 4 KB for names and values together.
    precondition {
      condition     = length(join("", concat(keys(var.environment), values(var.environment)))) <= 4096
      error_message = "The environment of ${var.name} is over Lambda's limit of 4096 bytes: name fewer networks in endpoint_allowed_networks, use a shorter name_prefix or fewer retry queues."
    }
  }

  # A function shall not run before it may do what it must, nor log into a group that is not there yet.
  depends_on = [aws_iam_role_policy.this]
}
