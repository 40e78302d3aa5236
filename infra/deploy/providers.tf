# One provider block for AWS and for a local emulator. Everything that differs between the two is decided here, in the module's
# local.common_environment (where the functions send their calls) and in the output URLs (how a client calls). No resource asks.
variable "region" {
  description = "AWS region to deploy to, such as eu-central-1. No default: you decide where events are kept."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2,5}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be the code of an AWS region, such as eu-central-1, got \"${var.region}\"."
  }
}

locals {
  emulated = var.aws_endpoint_url != null
}

provider "aws" {
  region = var.region

  # An emulator knows neither real credentials nor instance metadata, and serves buckets by path.
  skip_credentials_validation = local.emulated
  skip_metadata_api_check     = local.emulated
  s3_use_path_style           = local.emulated

  dynamic "endpoints" {
    for_each = local.emulated ? [var.aws_endpoint_url] : []

    content {
      apigatewayv2   = endpoints.value
      cloudformation = endpoints.value
      cloudwatch     = endpoints.value
      dynamodb       = endpoints.value
      iam            = endpoints.value
      lambda         = endpoints.value
      logs           = endpoints.value
      s3             = endpoints.value
      s3control      = endpoints.value
      scheduler      = endpoints.value
      sqs            = endpoints.value
      sts            = endpoints.value
    }
  }
}
