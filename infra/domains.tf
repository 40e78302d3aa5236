# Custom domains. Each maps its root to the stage $default: a base path would change the paths that the functions know and that
# IAM policies name.

locals {
  domains = { for api, domain in { publish = var.publish_domain, manage = var.manage_domain } : api => domain if domain != null }
  api_ids = { publish = one(aws_apigatewayv2_api.publish[*].id), manage = aws_apigatewayv2_api.manage.id }
}

resource "aws_apigatewayv2_domain_name" "this" {
  for_each = local.domains

  domain_name = each.value.name
  tags        = local.tags

  domain_name_configuration {
    certificate_arn = each.value.certificate_arn
    endpoint_type   = "REGIONAL"
    security_policy = "TLS_1_2"
  }

  lifecycle {
    precondition {
      condition     = each.key != "publish" || local.publish_by_api
      error_message = "publish_domain goes with publish_front_door \"HTTP_API\": a function URL has no domain but its own. A CDN in front of it can have one."
    }

    precondition {
      condition     = split(":", each.value.certificate_arn)[3] == local.region
      error_message = "The certificate of ${each.value.name} must be in the deployment's region, ${local.region}, got ${each.value.certificate_arn}."
    }
  }
}

resource "aws_apigatewayv2_api_mapping" "this" {
  for_each = local.domains

  api_id      = local.api_ids[each.key]
  domain_name = aws_apigatewayv2_domain_name.this[each.key].id
  stage       = each.key == "publish" ? one(aws_apigatewayv2_stage.publish[*].id) : aws_apigatewayv2_stage.manage.id
}

resource "aws_route53_record" "this" {
  for_each = { for api, domain in local.domains : api => domain if domain.zone_id != null }

  zone_id = each.value.zone_id
  name    = each.value.name
  type    = "A"

  alias {
    name                   = aws_apigatewayv2_domain_name.this[each.key].domain_name_configuration[0].target_domain_name
    zone_id                = aws_apigatewayv2_domain_name.this[each.key].domain_name_configuration[0].hosted_zone_id
    evaluate_target_health = false
  }
}
