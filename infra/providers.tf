# One provider block for AWS and for a local emulator of it. Everything that differs between the two is decided here, in
# local.common_environment (where the functions call) and in the output URLs (how a client calls); no resource asks.
provider "aws" {
  region = var.region

  # An emulator knows neither real credentials nor instance metadata, and serves buckets by path.
  skip_credentials_validation = local.emulated
  skip_metadata_api_check     = local.emulated
  s3_use_path_style           = local.emulated

  default_tags {
    tags = merge({ application = "gridpost", "gridpost:deployment" = var.name_prefix }, var.tags)
  }

  dynamic "endpoints" {
    for_each = local.emulated ? [var.aws_endpoint_url] : []

    content {
      apigatewayv2 = endpoints.value
      cloudwatch   = endpoints.value
      dynamodb     = endpoints.value
      iam          = endpoints.value
      lambda       = endpoints.value
      logs         = endpoints.value
      s3           = endpoints.value
      scheduler    = endpoints.value
      sqs          = endpoints.value
      sts          = endpoints.value
    }
  }
}
