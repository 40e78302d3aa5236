# A module of a user's own.

variable "host" {
  type = string
}

variable "headers" {
  type    = map(string)
  default = {}
}

resource "aws_cloudfront_distribution" "this" {
  enabled = true

  origin {
    domain_name = var.host
    origin_id   = "origin"

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
    }

    dynamic "custom_header" {
      for_each = var.headers

      content {
        name  = custom_header.key
        value = custom_header.value
      }
    }
  }

  default_cache_behavior {
    target_origin_id       = "origin"
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
