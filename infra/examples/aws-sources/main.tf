# Events that flow in AWS already, published into topics: one source of each kind. Create the topics once the deployment is
# there: gridpost topic create instances, and so on.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }
}

provider "aws" {}

variable "functions_dir" {
  description = "Directory with the functions' zips; null for target/lambda of this repository."
  type        = string
  default     = null
}

module "gridpost" {
  source = "../.."

  functions_dir = var.functions_dir
  aws_sources   = true
}

# Any event of any service, or of your own.
module "instances" {
  source = "../../modules/aws-source"

  gridpost     = module.gridpost.aws_sources
  name         = "instances"
  topic        = "instances"
  event_bridge = { event_pattern = jsonencode({ source = ["aws.ec2"] }) }
}

# Objects as Event Grid's events about blobs: handlers that were written for those run unchanged.
resource "aws_s3_bucket" "uploads" {
  bucket_prefix = "gridpost-uploads-"
}

module "uploads" {
  source = "../../modules/aws-source"

  gridpost = module.gridpost.aws_sources
  name     = "uploads"
  topic    = "uploads"
  s3       = { bucket = aws_s3_bucket.uploads.bucket, prefix = "in/" }
  blobs    = true
}

# The message of an SNS topic is the data of an event.
resource "aws_sns_topic" "orders" {
  name = "orders"
}

module "orders" {
  source = "../../modules/aws-source"

  gridpost   = module.gridpost.aws_sources
  name       = "orders"
  topic      = "orders"
  sns        = { topic_arn = aws_sns_topic.orders.arn, filter_policy = jsonencode({ priority = ["high"] }) }
  event_type = "Shop.Order"
}

# A queue of your own, which nothing else consumes.
resource "aws_sqs_queue" "legacy" {
  name             = "legacy"
  max_message_size = 262144
}

module "legacy" {
  source = "../../modules/aws-source"

  gridpost = module.gridpost.aws_sources
  name     = "legacy"
  topic    = "legacy"
  sqs      = { queue_arn = aws_sqs_queue.legacy.arn, message_bytes_max = aws_sqs_queue.legacy.max_message_size }
}

output "publish_url" {
  description = "Base URL of the publish API."
  value       = module.gridpost.publish_url
}
