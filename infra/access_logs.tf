# Access logs of both APIs. Requests that API Gateway refuses itself (429s, signatures, tokens) never reach a function, and
# CloudTrail does not record calls of an API's routes.

locals {
  access_log_format = jsonencode({
    requestId        = "$context.requestId"
    requestTime      = "$context.requestTime"
    sourceIp         = "$context.identity.sourceIp"
    userAgent        = "$context.identity.userAgent"
    userArn          = "$context.identity.userArn"
    httpMethod       = "$context.httpMethod"
    path             = "$context.path"
    routeKey         = "$context.routeKey"
    status           = "$context.status"
    responseLength   = "$context.responseLength"
    responseLatency  = "$context.responseLatency"
    authorizerError  = "$context.authorizer.error"
    error            = "$context.error.message"
    integrationError = "$context.integrationErrorMessage"
  })

  access_logs = { for api, is_logged in { publish = var.publish_access_logs && local.publish_by_api, manage = var.manage_access_logs } : api => api if is_logged }
}

# The prefix is the one for logs that AWS services deliver. Every other name would be added to one resource policy of the account,
# which holds 5,120 characters.
resource "aws_cloudwatch_log_group" "access" {
  # checkov:skip=CKV_AWS_158:encrypted with CloudWatch's own key unless kms_key_arns has one
  # checkov:skip=CKV_AWS_338:the operator decides how long (log_retention_days)
  for_each = local.access_logs

  name              = "/aws/vendedlogs/${var.name_prefix}-${each.key}-api"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arns.logs
  tags              = local.tags
}
