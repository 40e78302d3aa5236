# Who called the APIs, as API Gateway saw it: what it refuses itself (429s, signatures, tokens) never reaches a function, and CloudTrail
# does not record calls of an API's routes.

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

# The prefix is that of logs which AWS's services deliver: each other name would be added to one resource policy of the account, which
# takes 5,120 characters.
resource "aws_cloudwatch_log_group" "access" {
  # checkov:skip=CKV_AWS_158:encrypted by CloudWatch's own key unless kms_key_arns has one
  # checkov:skip=CKV_AWS_338:how long is the operator's decision (log_retention_days)
  for_each = local.access_logs

  name              = "/aws/vendedlogs/${var.name_prefix}-${each.key}-api"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arns.logs
  tags              = local.tags
}
