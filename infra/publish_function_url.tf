# The function URL of ingest, publish_front_door FUNCTION_URL: the same requests as by the publish API, without API Gateway's fee
# for each of them, and without its throttling and its tokens. Whatever is no publish is answered 404 by ingest.

locals {
  # Empty while there is none.
  publish_function_url = trimsuffix(join("", aws_lambda_function_url.publish[*].function_url), "/")

  # Anybody may knock: ingest checks keys. Principals of IAM need no more than their own policy.
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

  # Not before there is what ingest reads and where it sends to.
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

# Since October 2025 a function URL asks for lambda:InvokeFunction as well, granted for calls by the URL alone. The provider can
# say so from 6.28 on, CloudFormation always; without the condition anybody could invoke ingest directly, and forge what API
# Gateway tells it. The emulator asks for no grants.
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
