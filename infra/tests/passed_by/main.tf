# Content delivery networks as users write them in front of a deployment: `gridpost doctor --plan` must find each of them
# (examples_doctor.py). None of them shows the secret that it should.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }
}

provider "aws" {
  region = "eu-central-1"
}

variable "functions_dir" {
  type = string
}

locals {
  certificate = "arn:aws:acm:eu-central-1:123456789012:certificate/1"
}

# By a domain of the module.
module "orders" {
  source = "../.."

  name_prefix   = "orders"
  functions_dir = var.functions_dir

  publish_domain = { name = "origin.orders.example.com", certificate_arn = local.certificate, zone_id = "Z1" }
}

resource "aws_cloudfront_distribution" "orders" {
  enabled = true

  origin {
    domain_name = "origin.orders.example.com"
    origin_id   = "gridpost"

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
    }
  }

  default_cache_behavior {
    target_origin_id       = "gridpost"
    allowed_methods        = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
    cached_methods         = ["GET", "HEAD"]
    viewer_protocol_policy = "https-only"
    cache_policy_id        = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    cloudfront_default_certificate = true
  }
}

# By the API's generated name, in a module of the user's own; and by a function URL.
module "billing" {
  source   = "../.."
  for_each = { api = "HTTP_API", url = "FUNCTION_URL" }

  name_prefix        = "billing-${each.key}"
  functions_dir      = var.functions_dir
  publish_front_door = each.value
}

module "cdn" {
  source = "./cdn"

  host = module.billing["api"].publish_host
}

module "cdn_of_url" {
  source = "./cdn"

  host = replace(module.billing["url"].publish_url, "https://", "")
}

# By a domain that is mapped outside the module.
module "stock" {
  source = "../.."

  name_prefix   = "stock"
  functions_dir = var.functions_dir
}

resource "aws_apigatewayv2_domain_name" "stock" {
  domain_name = "api.stock.example.com"

  domain_name_configuration {
    certificate_arn = local.certificate
    endpoint_type   = "REGIONAL"
    security_policy = "TLS_1_2"
  }
}

resource "aws_apigatewayv2_api_mapping" "stock" {
  api_id      = module.stock.publish_api_id
  domain_name = aws_apigatewayv2_domain_name.stock.id
  stage       = "$default"
}

module "cdn_of_domain" {
  source = "./cdn"

  host = aws_apigatewayv2_domain_name.stock.domain_name
}

# With the secret asked for, and not sent.
module "closed" {
  source = "../.."

  name_prefix   = "closed"
  functions_dir = var.functions_dir

  publish_public_url   = "https://closed.example.com"
  origin_secret_sha256 = [sha256(terraform_data.secret.output)]
}

resource "terraform_data" "secret" {
  input = uuid()
}

module "cdn_without_secret" {
  source = "./cdn"

  host = module.closed.publish_host
}

# As it should be, and in front of something else: nothing is to be found here.
module "cdn_with_secret" {
  source = "./cdn"

  host    = module.closed.publish_host
  headers = { "X-Gridpost-Origin-Secret" = terraform_data.secret.output }
}

module "cdn_of_others" {
  source = "./cdn"

  host = "www.example.com"
}
