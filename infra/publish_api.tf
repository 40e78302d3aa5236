# The publish API, publish_front_door HTTP_API: where events enter. With publish_authorization KEYS it is open to the internet,
# and ingest checks the topic's keys itself, in constant time; with AWS_IAM or JWT, API Gateway refuses everyone else, and ingest
# checks no keys.

locals {
  publish_by_api = var.publish_front_door == "HTTP_API"

  publish_routes = local.publish_by_api ? toset([
    "POST /topics/{topic}/api/events",
    # The namespace form, /topics/<topic>:publish. A route cannot match part of a segment, so ingest takes it apart.
    "POST /topics/{topic}",
  ]) : toset([])

  # How curl authenticates, by publish_authorization. A signature is for one service: API Gateway or Lambda.
  publish_credentials = {
    KEYS    = "-H \"aeg-sas-key: $GRIDPOST_KEY\""
    JWT     = "-H \"authorization: Bearer $GRIDPOST_TOKEN\""
    AWS_IAM = "--aws-sigv4 'aws:amz:${local.region}:${local.publish_by_api ? "execute-api" : "lambda"}' --user \"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY\" -H \"x-amz-security-token: $AWS_SESSION_TOKEN\""
  }

  publish_url = coalesce(var.publish_public_url, local.publish_own_url)

  # The API's own address, not that of a CDN before it.
  publish_own_url = local.publish_by_api ? local.publish_api_url : local.publish_function_url

  # A client of the emulator cannot resolve the API's host name, so it uses a path.
  publish_api_url = (
    local.emulated
    ? "${var.aws_endpoint_url}/_aws/execute-api/${join("", aws_apigatewayv2_api.publish[*].id)}/$default"
    : var.publish_domain != null ? "https://${var.publish_domain.name}" : join("", aws_apigatewayv2_api.publish[*].api_endpoint)
  )
}

resource "aws_apigatewayv2_api" "publish" {
  count = local.publish_by_api ? 1 : 0

  name          = "${var.name_prefix}-publish"
  tags          = local.tags
  description   = "Gridpost: publish events to topics"
  protocol_type = "HTTP"

  # With a custom domain, this name would bypass the protection of that domain.
  disable_execute_api_endpoint = !var.default_endpoints

  lifecycle {
    precondition {
      condition     = var.default_endpoints || var.publish_domain != null
      error_message = "Without default_endpoints the publish API needs publish_domain: nothing would lead to it."
    }

    precondition {
      condition     = var.publish_authorization != "JWT" || (var.publish_jwt_issuer != null && length(var.publish_jwt_audience) > 0)
      error_message = "publish_authorization \"JWT\" needs publish_jwt_issuer and at least one publish_jwt_audience: without them there is nothing to tell a publisher by."
    }

    precondition {
      condition     = var.publish_authorization == "JWT" || (var.publish_jwt_issuer == null && length(var.publish_jwt_audience) == 0)
      error_message = "publish_jwt_issuer and publish_jwt_audience are for publish_authorization \"JWT\", and it is \"${var.publish_authorization}\": nobody would be asked for a token."
    }
  }
}

resource "aws_apigatewayv2_authorizer" "publish" {
  count = local.publish_by_api && var.publish_authorization == "JWT" ? 1 : 0

  api_id           = aws_apigatewayv2_api.publish[0].id
  name             = "${var.name_prefix}-publish"
  authorizer_type  = "JWT"
  identity_sources = ["$request.header.Authorization"]

  jwt_configuration {
    issuer   = var.publish_jwt_issuer
    audience = var.publish_jwt_audience
  }
}

resource "aws_apigatewayv2_integration" "publish" {
  count = local.publish_by_api ? 1 : 0

  api_id                 = aws_apigatewayv2_api.publish[0].id
  integration_type       = "AWS_PROXY"
  integration_uri        = module.ingest.invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = 30000
}

resource "aws_apigatewayv2_route" "publish" {
  # checkov:skip=CKV_AWS_309:by default publishers authenticate with topic keys, which ingest checks
  for_each = local.publish_routes

  api_id             = aws_apigatewayv2_api.publish[0].id
  route_key          = each.value
  target             = "integrations/${aws_apigatewayv2_integration.publish[0].id}"
  authorization_type = var.publish_authorization == "KEYS" ? "NONE" : var.publish_authorization
  authorizer_id      = one(aws_apigatewayv2_authorizer.publish[*].id)
}

resource "aws_apigatewayv2_stage" "publish" {
  # checkov:skip=CKV_AWS_76:access logs (publish_access_logs) cost a third as much as the requests
  # checkov:skip=CKV2_AWS_51:publishers authenticate with topic keys
  count = local.publish_by_api ? 1 : 0

  api_id      = aws_apigatewayv2_api.publish[0].id
  name        = "$default"
  tags        = local.tags
  auto_deploy = true

  dynamic "access_log_settings" {
    for_each = [for name, group in aws_cloudwatch_log_group.access : group.arn if name == "publish"]

    content {
      destination_arn = access_log_settings.value
      format          = local.access_log_format
    }
  }

  default_route_settings {
    throttling_rate_limit  = var.publish_rate_limit
    throttling_burst_limit = var.publish_burst_limit
  }

  # Publishes must not arrive before the tables and queues that ingest uses exist.
  depends_on = [aws_dynamodb_table.config, aws_sqs_queue.dispatch, aws_sqs_queue.fan_out]
}

resource "aws_lambda_permission" "publish" {
  count = local.publish_by_api ? 1 : 0

  statement_id  = "AllowPublishApi"
  action        = "lambda:InvokeFunction"
  function_name = module.ingest.name
  qualifier     = module.ingest.qualifier
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.publish[0].execution_arn}/*/*"
}
