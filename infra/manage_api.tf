# The manage API. Every route is explicit, so an IAM policy can allow some of them, and API Gateway answers 404 for anything else
# before a function runs.

locals {
  manage_routes = toset([
    "GET /topics",
    "PUT /topics/{topic}",
    "GET /topics/{topic}",
    "PATCH /topics/{topic}",
    "DELETE /topics/{topic}",
    "POST /topics/{topic}/listKeys",
    "POST /topics/{topic}/regenerateKey",
    "GET /topics/{topic}/eventSubscriptions",
    "POST /topics/{topic}/eventSubscriptions:test",
    "POST /topics/{topic}/explain",
    "GET /topics/{topic}/healths",
    "PUT /topics/{topic}/eventSubscriptions/{name}",
    "GET /topics/{topic}/eventSubscriptions/{name}",
    "PATCH /topics/{topic}/eventSubscriptions/{name}",
    "DELETE /topics/{topic}/eventSubscriptions/{name}",
    "GET /topics/{topic}/eventSubscriptions/{name}/deliveries",
    "GET /topics/{topic}/eventSubscriptions/{name}/deliveries:count",
    "GET /topics/{topic}/eventSubscriptions/{name}/deliveries/{id}",
    "POST /topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend",
    "GET /topics/{topic}/eventSubscriptions/{name}/health",
    "POST /topics/{topic}/eventSubscriptions/{name}/health:reset",
    "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters",
    "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters:count",
    "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}",
    "POST /topics/{topic}/eventSubscriptions/{name}/deadLetters:purge",
    "POST /topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive",
    "GET /topics/{topic}/eventSubscriptions/{name}/redrives",
    "GET /topics/{topic}/eventSubscriptions/{name}/redrives/{id}",
    "POST /topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel",
    "POST /topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume",
    "POST /topics/{topic}/eventSubscriptions/{name}/sendTestEvent",
    "POST /topics/{topic}/eventSubscriptions/{name}/getFullUrl",
    "POST /topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
    "POST /topics/{topic}/eventSubscriptions/{name}/getSigningSecrets",
    "POST /topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
    "POST /topics/{topic}/eventSubscriptions/{name}/pause",
    "POST /topics/{topic}/eventSubscriptions/{name}/resume",
    "GET /poison",
    "GET /poison/{id}",
    "POST /poison:resend",
    "POST /poison:purge",
    "GET /parked",
    "POST /parked:release",
    "POST /parked:cancel",
    "POST /journalQueries",
    "GET /journalQueries/{id}",
  ])

  # An endpoint's owner consents to events here. The caller has no IAM identity, only the token that was sent to the endpoint.
  validation_routes = toset([
    "GET /topics/{topic}/eventSubscriptions/{name}/validate",
    "POST /topics/{topic}/eventSubscriptions/{name}/validate",
  ])

  # See publish_url.
  manage_url = (
    local.emulated
    ? "${var.aws_endpoint_url}/_aws/execute-api/${aws_apigatewayv2_api.manage.id}/$default"
    : var.manage_domain != null ? "https://${var.manage_domain.name}" : aws_apigatewayv2_api.manage.api_endpoint
  )
}

resource "aws_apigatewayv2_api" "manage" {
  name          = "${var.name_prefix}-manage"
  tags          = local.tags
  description   = "Gridpost: manage topics and event subscriptions"
  protocol_type = "HTTP"

  # With a custom domain, this name would bypass the protection of that domain.
  disable_execute_api_endpoint = !var.default_endpoints

  lifecycle {
    precondition {
      condition     = var.default_endpoints || var.manage_domain != null
      error_message = "Without default_endpoints the manage API needs manage_domain: nothing would lead to it."
    }

    precondition {
      condition     = var.manage_authorization == "AWS_IAM" || local.emulated
      error_message = "manage_authorization \"NONE\" would let anyone on the internet read topic keys and redirect events. It is allowed only together with aws_endpoint_url, that is, on an emulator; use \"AWS_IAM\"."
    }

    # Who may write event subscriptions would call it in dispatch's name.
    precondition {
      condition     = length(setintersection([for host in keys(var.endpoint_signed_hosts) : lower(host)], [for domain in values(local.domains) : lower(domain.name)])) == 0
      error_message = "endpoint_signed_hosts must not have the deployment's own domains, got ${jsonencode(keys(var.endpoint_signed_hosts))}."
    }

    postcondition {
      condition     = !contains([for host in keys(var.endpoint_signed_hosts) : "https://${lower(host)}"], coalesce(self.api_endpoint, "none"))
      error_message = "endpoint_signed_hosts must not have the deployment's own manage API, ${coalesce(self.api_endpoint, "none")}."
    }

    postcondition {
      condition     = !contains([for arn in flatten(values(var.endpoint_signed_hosts)) : split("/", try(split(":", arn)[5], ""))[0]], self.id)
      error_message = "endpoint_signed_hosts must not let the deployment's own manage API be invoked, ${self.id}."
    }
  }
}

resource "aws_apigatewayv2_integration" "manage" {
  api_id                 = aws_apigatewayv2_api.manage.id
  integration_type       = "AWS_PROXY"
  integration_uri        = module.manage.invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = 30000
}

resource "aws_apigatewayv2_route" "manage" {
  for_each = local.manage_routes

  api_id             = aws_apigatewayv2_api.manage.id
  route_key          = each.value
  target             = "integrations/${aws_apigatewayv2_integration.manage.id}"
  authorization_type = var.manage_authorization
}

resource "aws_apigatewayv2_route" "validation" {
  # checkov:skip=CKV_AWS_309:manage checks the token in the URL, 256 random bits that are valid for ten minutes
  for_each = local.validation_routes

  api_id             = aws_apigatewayv2_api.manage.id
  route_key          = each.value
  target             = "integrations/${aws_apigatewayv2_integration.manage.id}"
  authorization_type = "NONE"
}

resource "aws_apigatewayv2_stage" "manage" {
  # checkov:skip=CKV_AWS_76:manage_access_logs
  # checkov:skip=CKV2_AWS_51:callers authenticate with IAM
  api_id      = aws_apigatewayv2_api.manage.id
  name        = "$default"
  tags        = local.tags
  auto_deploy = true

  # Operators and their scripts, not events.
  dynamic "access_log_settings" {
    for_each = [for name, group in aws_cloudwatch_log_group.access : group.arn if name == "manage"]

    content {
      destination_arn = access_log_settings.value
      format          = local.access_log_format
    }
  }

  default_route_settings {
    throttling_rate_limit  = 50
    throttling_burst_limit = 100
  }

  # Open to the internet, but an endpoint's owner needs it only once. A low limit stops guessers and keeps them from using up the
  # operators' requests.
  dynamic "route_settings" {
    for_each = local.validation_routes

    content {
      route_key              = route_settings.value
      throttling_rate_limit  = 5
      throttling_burst_limit = 10
    }
  }

  # A stage accepts settings only for routes that exist.
  depends_on = [aws_dynamodb_table.config, aws_dynamodb_table.state, aws_apigatewayv2_route.validation]
}

resource "aws_lambda_permission" "manage" {
  statement_id  = "AllowManageApi"
  action        = "lambda:InvokeFunction"
  function_name = module.manage.name
  qualifier     = module.manage.qualifier
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.manage.execution_arn}/*/*"
}
