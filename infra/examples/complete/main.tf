# A production deployment: everything that an organisation may require, custom domains for both APIs, alarms that page, and an
# event subscription as code.

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

variable "region" {
  description = "AWS region to deploy to."
  type        = string
  default     = "eu-central-1"
}

variable "functions_bucket" {
  description = "Bucket with a release's functions, and their hashes: see the module."
  type = object({
    name       = string
    key_prefix = optional(string, "")
    sha256     = map(string)
  })
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of all roles."
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = "Key that encrypts tables, buckets and queues."
  type        = string
  default     = null
}

# Receives the alarms: subscribe your pager to it.
resource "aws_sns_topic" "pages" {
  name = "gridpost-pages"
}

module "gridpost" {
  source = "../.."

  name_prefix      = "events"
  functions_bucket = var.functions_bucket
  tags             = { team = "platform" }

  permissions_boundary_arn = var.permissions_boundary_arn
  iam_path                 = "/platform/"
  kms_key_arns             = { dynamodb = var.kms_key_arn, s3 = var.kms_key_arn, sqs = var.kms_key_arn }

  # A quota of 3,000, of which 300 are reserved for publishes.
  account_concurrency         = 3000
  first_attempt_concurrency   = 1000
  ingest_reserved_concurrency = 300
  publish_rate_limit          = 2000
  publish_burst_limit         = 2000

  alarms              = "ALL"
  dashboard           = true
  alarm_topic_arns    = [aws_sns_topic.pages.arn]
  publish_access_logs = true
  log_retention_days  = 90
  versions            = true

  # Besides webhooks, queues of this account whose names begin with events- may be endpoints.
  resource_destinations = ["arn:aws:sqs:${var.region}:${data.aws_caller_identity.current.account_id}:events-*"]
}

data "aws_caller_identity" "current" {}

# Create the topic orders first: gridpost topic create orders. Plans ask the manage function for problems in the document.
module "billing" {
  source = "../../modules/event-subscription"
  count  = var.with_event_subscription ? 1 : 0

  manage_function_name = module.gridpost.function_arns["manage"]
  topic                = "orders"
  name                 = "billing"
  document = {
    properties = {
      destination = {
        endpointType = "WebHook"
        properties   = { endpointUrl = "https://billing.example.com/events" }
      }
      filter = { includedEventTypes = ["Order.Placed"] }
    }
  }
}

variable "with_event_subscription" {
  description = "Whether to create the event subscription: set it after the first apply, once the topic exists."
  type        = bool
  default     = false
}

output "publish_url" {
  description = "Base URL of the publish API."
  value       = module.gridpost.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API."
  value       = module.gridpost.manage_url
}
