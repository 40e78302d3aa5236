# AWS resources for `gridpost verify`: a queue that receives events, and a webhook that answers as its URL says and reports what
# it received to a second queue. This is not part of a deployment: apply it next to one, and destroy it afterwards.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  name = "${var.name_prefix}-verify"

  # Provider 5 has name, provider 6 has region instead; both have id.
  region    = data.aws_region.current.id
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition

  queue_arn   = "arn:${local.partition}:sqs:${local.region}:${local.account}:${local.name}"
  reports_arn = "${local.queue_arn}-reports"

  # Composed, as in the deployment, so nothing waits for the queue.
  log_group_name = "/aws/lambda/${local.name}-webhook"
  log_group_arn  = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:${local.log_group_name}"

  webhook_url = "${aws_cloudformation_stack.webhook.outputs["Url"]}?token=${terraform_data.token.output}"
}

resource "aws_sqs_queue" "this" {
  for_each = { events = local.name, reports = "${local.name}-reports" }

  name = each.value
  # Messages of an interrupted run are gone within the hour.
  message_retention_seconds = 3600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

# The function URL is open, because dispatch signs no requests. The webhook does nothing without this token. It is Terraform's own
# random value, so no other provider is needed; terraform apply -replace makes a new one.
resource "terraform_data" "token" {
  input = uuid()

  lifecycle {
    ignore_changes = [input]
  }
}

resource "aws_cloudwatch_log_group" "webhook" {
  # checkov:skip=CKV_AWS_158:encrypted with CloudWatch's own key; it holds only Lambda's own lines
  # checkov:skip=CKV_AWS_338:of no use once the run is over
  name              = local.log_group_name
  retention_in_days = 1
  tags              = var.tags
}

resource "aws_iam_role" "webhook" {
  name                 = "${local.name}-${local.region}"
  description          = "What ${local.name}-webhook may do"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

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

resource "aws_iam_role_policy" "webhook" {
  name = "function"
  role = aws_iam_role.webhook.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Sid = "Report", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = [local.reports_arn] },
      {
        Sid      = "WriteOwnLogs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["${local.log_group_arn}:*"]
      },
    ]
  })
}

# Created through CloudFormation for two reasons. It takes webhook.py as it is, so nothing is built or zipped, and no further
# provider is needed. And since October 2025 a function URL also needs lambda:InvokeFunction, granted only for calls through the
# URL, which the provider supports only from 6.28 on.
resource "aws_cloudformation_stack" "webhook" {
  # checkov:skip=CKV_AWS_124:it lives for a run
  name = "${local.name}-webhook"
  tags = var.tags

  template_body = jsonencode({
    Description = "The webhook of gridpost verify"
    Resources = {
      Function = {
        Type = "AWS::Lambda::Function"
        Properties = {
          FunctionName = "${local.name}-webhook"
          Description  = "Plays the webhook for gridpost verify"
          Role         = aws_iam_role.webhook.arn
          # The runtime includes boto3, so one file is enough.
          Runtime       = "python3.13"
          Handler       = "index.handler"
          Architectures = ["arm64"]
          MemorySize    = 256
          # A late answer takes 35 s.
          Timeout       = 60
          Code          = { ZipFile = file("${path.module}/webhook.py") }
          LoggingConfig = { LogFormat = "Text", LogGroup = aws_cloudwatch_log_group.webhook.name }
          Environment = {
            Variables = { TOKEN = terraform_data.token.output, REPORTS = aws_sqs_queue.this["reports"].url }
          }
        }
      }
      Url = {
        Type       = "AWS::Lambda::Url"
        Properties = { TargetFunctionArn = { Ref = "Function" }, AuthType = "NONE" }
      }
      Call = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action              = "lambda:InvokeFunctionUrl"
          FunctionName        = { Ref = "Function" }
          FunctionUrlAuthType = "NONE"
          Principal           = "*"
        }
      }
      InvokeByUrl = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action                = "lambda:InvokeFunction"
          FunctionName          = { Ref = "Function" }
          InvokedViaFunctionUrl = true
          Principal             = "*"
        }
      }
    }
    Outputs = { Url = { Value = { "Fn::GetAtt" = ["Url", "FunctionUrl"] } } }
  })

  depends_on = [aws_iam_role_policy.webhook]
}
