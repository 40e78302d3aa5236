# What the mocked provider answers where a made-up value would not pass for an ARN. Policies, environments and names are composed
# in the configuration, so hardly anything else is needed.

mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
}

mock_data "aws_region" {
  defaults = { id = "eu-central-1" }
}

mock_resource "aws_cloudformation_stack" {
  defaults = { outputs = { Url = "https://mocked.lambda-url.eu-central-1.on.aws/" } }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:mocked" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::123456789012:role/mocked" }
}

mock_resource "aws_lambda_alias" {
  defaults = {
    arn        = "arn:aws:lambda:eu-central-1:123456789012:function:mocked:live"
    invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/mocked:live/invocations"
  }
}

mock_resource "aws_lambda_function" {
  defaults = {
    arn        = "arn:aws:lambda:eu-central-1:123456789012:function:mocked"
    invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/mocked/invocations"
  }
}
