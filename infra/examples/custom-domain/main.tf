# Custom domains for both APIs, with certificates and records in a Route 53 zone; and a firewall for publishes: CloudFront with
# WAF serves the domain. The API behind it has a public name, too, but refuses publishes without CloudFront's secret.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }
}

provider "aws" {
  region = var.region
}

# CloudFront's certificates and firewalls must be in this region.
provider "aws" {
  alias  = "global"
  region = "us-east-1"
}

variable "region" {
  description = "AWS region to deploy to."
  type        = string
  default     = "eu-central-1"
}

variable "functions_dir" {
  description = "Directory with the functions' zips; null for target/lambda of this repository."
  type        = string
  default     = null
}

variable "zone" {
  description = "Name of a public zone in Route 53, such as example.com."
  type        = string
}

variable "origin_secrets" {
  description = "Names of the secrets by which CloudFront shows who it is; it sends the last one. To replace it: apply with the new name behind the old one, then with the new one alone."
  type        = list(string)
  default     = ["first"]
}

locals {
  hosts = {
    # The first is for CloudFront, the second for publishers.
    origin  = "origin.events.${var.zone}"
    publish = "events.${var.zone}"
    manage  = "manage.events.${var.zone}"
  }
}

data "aws_route53_zone" "this" {
  name = var.zone
}

module "gridpost" {
  source = "../.."

  functions_dir = var.functions_dir

  publish_domain = {
    name            = local.hosts.origin
    certificate_arn = aws_acm_certificate_validation.regional.certificate_arn
    zone_id         = data.aws_route53_zone.this.zone_id
  }
  manage_domain = {
    name            = local.hosts.manage
    certificate_arn = aws_acm_certificate_validation.regional.certificate_arn
    zone_id         = data.aws_route53_zone.this.zone_id
  }
  default_endpoints = false

  publish_public_url   = "https://${local.hosts.publish}"
  origin_secret_sha256 = [for name in var.origin_secrets : sha256(local.origin_secrets[name])]
}

# Terraform's own random values, so no other provider is needed. They are in the state, as CloudFront's settings are.
resource "terraform_data" "origin_secret" {
  for_each = toset(var.origin_secrets)

  input = "${uuid()}${uuid()}"

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  origin_secrets = { for name, secret in terraform_data.origin_secret : name => sensitive(secret.output) }
}

# One certificate for both APIs.
resource "aws_acm_certificate" "regional" {
  domain_name               = local.hosts.origin
  subject_alternative_names = [local.hosts.manage]
  validation_method         = "DNS"
}

resource "aws_acm_certificate" "global" {
  provider = aws.global

  domain_name       = local.hosts.publish
  validation_method = "DNS"
}

resource "aws_route53_record" "validation" {
  for_each = toset(values(local.hosts))

  zone_id = data.aws_route53_zone.this.zone_id
  type    = "CNAME"
  ttl     = 300
  name    = one([for option in local.validation : option.resource_record_name if option.domain_name == each.key])
  records = [one([for option in local.validation : option.resource_record_value if option.domain_name == each.key])]
}

locals {
  validation = concat(
    tolist(aws_acm_certificate.regional.domain_validation_options), tolist(aws_acm_certificate.global.domain_validation_options),
  )
}

resource "aws_acm_certificate_validation" "regional" {
  certificate_arn         = aws_acm_certificate.regional.arn
  validation_record_fqdns = [for host in ["origin", "manage"] : aws_route53_record.validation[local.hosts[host]].fqdn]
}

resource "aws_acm_certificate_validation" "global" {
  provider = aws.global

  certificate_arn         = aws_acm_certificate.global.arn
  validation_record_fqdns = [aws_route53_record.validation[local.hosts.publish].fqdn]
}

resource "aws_wafv2_web_acl" "publish" {
  provider = aws.global

  name  = "gridpost-publish"
  scope = "CLOUDFRONT"

  default_action {
    allow {}
  }

  # One address may send 10,000 publishes in five minutes.
  rule {
    name     = "rate-by-address"
    priority = 1

    action {
      block {}
    }

    statement {
      rate_based_statement {
        limit              = 10000
        aggregate_key_type = "IP"
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "gridpost-rate-by-address"
      sampled_requests_enabled   = false
    }
  }

  visibility_config {
    cloudwatch_metrics_enabled = true
    metric_name                = "gridpost-publish"
    sampled_requests_enabled   = false
  }
}

resource "aws_cloudfront_distribution" "publish" {
  enabled     = true
  aliases     = [local.hosts.publish]
  web_acl_id  = aws_wafv2_web_acl.publish.arn
  price_class = "PriceClass_100"

  origin {
    domain_name = local.hosts.origin
    origin_id   = "gridpost"

    # A header of this name in a request of others is replaced.
    custom_header {
      name  = "X-Gridpost-Origin-Secret"
      value = local.origin_secrets[var.origin_secrets[length(var.origin_secrets) - 1]]
    }

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
    }
  }

  # Passes everything on unchanged and caches nothing. It leaves out the Host header, by which API Gateway recognizes the domain.
  default_cache_behavior {
    target_origin_id         = "gridpost"
    allowed_methods          = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
    cached_methods           = ["GET", "HEAD"]
    viewer_protocol_policy   = "https-only"
    cache_policy_id          = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad" # Managed-CachingDisabled
    origin_request_policy_id = "b689b0a8-53d0-40ab-baf2-68738e2966ac" # Managed-AllViewerExceptHostHeader
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    acm_certificate_arn      = aws_acm_certificate_validation.global.certificate_arn
    ssl_support_method       = "sni-only"
    minimum_protocol_version = "TLSv1.2_2021"
  }

  # A new secret is taken before it is sent.
  depends_on = [module.gridpost]
}

resource "aws_route53_record" "publish" {
  zone_id = data.aws_route53_zone.this.zone_id
  name    = local.hosts.publish
  type    = "A"

  alias {
    name                   = aws_cloudfront_distribution.publish.domain_name
    zone_id                = aws_cloudfront_distribution.publish.hosted_zone_id
    evaluate_target_health = false
  }
}

output "publish_url" {
  description = "URL that publishers send events to."
  value       = "https://${local.hosts.publish}"
}

output "manage_url" {
  description = "Base URL of the manage API."
  value       = module.gridpost.manage_url
}
