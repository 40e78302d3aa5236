# The function URL of ingest, publish_front_door FUNCTION_URL: it takes the same requests as the publish API, without API
# Gateway's fee per request, and without its throttling and tokens. ingest answers 404 to anything that is not a publish.

locals {
  # Empty without a function URL.
  publish_function_url = trimsuffix(join("", aws_lambda_function_url.publish[*].function_url), "/")

  # Anyone may send requests: ingest checks keys. IAM principals need only their own policy.
  publish_url_is_open = !local.publish_by_api && var.publish_authorization == "KEYS"
}

resource "aws_lambda_function_url" "publish" {
  # checkov:skip=CKV_AWS_258:by default publishers authenticate with topic keys, which ingest checks
  count = local.publish_by_api ? 0 : 1

  function_name      = module.ingest.name
  qualifier          = module.ingest.qualifier
  authorization_type = var.publish_authorization == "AWS_IAM" ? "AWS_IAM" : "NONE"
  invoke_mode        = "BUFFERED"

  lifecycle {
    precondition {
      condition     = var.publish_authorization != "JWT" && var.publish_jwt_issuer == null && length(var.publish_jwt_audience) == 0
      error_message = "A function URL takes no tokens: publish_front_door \"FUNCTION_URL\" goes with publish_authorization \"KEYS\" or \"AWS_IAM\", and without publish_jwt_issuer and publish_jwt_audience. For tokens use publish_front_door \"HTTP_API\"."
    }
  }

  # Publishes must not arrive before the tables and queues that ingest uses exist.
  depends_on = [aws_dynamodb_table.config, aws_sqs_queue.dispatch, aws_sqs_queue.fan_out]
}

resource "aws_lambda_permission" "publish_function_url" {
  # checkov:skip=CKV_AWS_301:publishers authenticate with topic keys, which ingest checks
  count = local.publish_url_is_open ? 1 : 0

  statement_id           = "AllowPublishByUrl"
  action                 = "lambda:InvokeFunctionUrl"
  function_name          = module.ingest.name
  qualifier              = module.ingest.qualifier
  principal              = "*"
  function_url_auth_type = "NONE"
}

# Since October 2025 a function URL also needs lambda:InvokeFunction, granted only for calls through the URL. The provider
# supports that condition from 6.28 on; CloudFormation always does. Without the condition anyone could invoke ingest directly and
# forge what API Gateway tells it. The emulator needs no grants.
resource "aws_cloudformation_stack" "publish_function_url" {
  # checkov:skip=CKV_AWS_124:it holds one grant, which Terraform watches
  count = local.publish_url_is_open && !local.emulated ? 1 : 0

  name = "${var.name_prefix}-publish-by-url"
  tags = local.tags

  template_body = jsonencode({
    Description = "Gridpost: lets publishers invoke ingest by its function URL, and by nothing else"
    Resources = {
      InvokeByUrl = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action                = "lambda:InvokeFunction"
          FunctionName          = module.ingest.arn
          InvokedViaFunctionUrl = true
          Principal             = "*"
        }
      }
    }
  })
}
