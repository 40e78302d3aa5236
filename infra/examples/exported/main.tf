# Gridpost on AWS with the topics and event subscriptions of topics.json, as `gridpost export` has written both. From here on
# they are yours to change.
#
# `gridpost` must be on the PATH where this is applied, and every secret that topics.json leaves to a variable, as in
# ${SECRET_ORDERS_BILLING_QUERY}, in the environment: so it gets into no state. The functions must be built, or come out of a
# release's bucket: see the module's README.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }
}

variable "region" {
  description = "AWS region to deploy to."
  type        = string
  default     = "eu-central-1"
}

variable "name_prefix" {
  description = "First part of every name; two deployments in one account and region need two."
  type        = string
  default     = "gridpost"
}

variable "functions_dir" {
  description = "Directory with the functions' zips; null for target/lambda of the repository that the module lies in."
  type        = string
  default     = null
}

variable "endpoint_allowed_networks" {
  description = "Networks (CIDR) whose private addresses and plain http endpoints are allowed."
  type        = list(string)
  default     = ["10.1.2.3/32"]
}

variable "dead_letter_buckets" {
  description = "Buckets that take dead letters, by their names in topics.json. One that is left out is the deployment's own."
  type        = map(string)
  default     = {}
}

provider "aws" {
  region = var.region
}

module "gridpost" {
  # A tag that is not published: name the folder `infra` of a clone here, or export with --module PATH.
  source = "../.."

  name_prefix               = var.name_prefix
  functions_dir             = var.functions_dir
  endpoint_allowed_networks = var.endpoint_allowed_networks
  resource_destinations     = ["arn:aws:sqs:eu-central-1:123456789012:orders"]
  dead_letter_bucket_arns   = [for bucket in values(var.dead_letter_buckets) : "arn:aws:s3:::${bucket}"]
  dead_letter_topic         = "dead-letters"
}

locals {
  buckets = {
    for bucket in ["gridpost"] : bucket => lookup(var.dead_letter_buckets, bucket, module.gridpost.dead_letter_bucket)
  }
}

# Terraform has no resource for a topic: the command line creates and replaces what topics.json declares, whenever that
# changes. It deletes nothing: `gridpost topic delete`, `gridpost subscription delete` do.
resource "terraform_data" "topics" {
  triggers_replace = {
    manage_url = module.gridpost.manage_url
    buckets    = local.buckets
    declared   = jsondecode(file("${path.module}/topics.json"))
  }

  provisioner "local-exec" {
    command = join(" ", concat(
      ["gridpost apply \"$TOPICS\""],
      [for from, to in local.buckets : "--bucket ${from}=${to}"],
    ))

    environment = {
      GRIDPOST_MANAGE_URL = module.gridpost.manage_url
      TOPICS              = abspath("${path.module}/topics.json")
    }
  }
}

output "publish_url" {
  description = "Base URL of the publish API. Publishers change to it, and to the keys that `gridpost topic keys` shows."
  value       = module.gridpost.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API."
  value       = module.gridpost.manage_url
}
