# What a module with a provider of its own would refuse.

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
  region = "eu-central-1"
}

provider "aws" {
  alias  = "elsewhere"
  region = "us-east-1"
}

variable "functions_dir" {
  description = "Directory with the functions' zips."
  type        = string
}

resource "aws_sns_topic" "pages" {
  name = "pages"
}

module "each" {
  source   = "../.."
  for_each = toset(["orders", "billing"])

  name_prefix   = each.key
  functions_dir = var.functions_dir
}

module "counted" {
  source = "../.."
  count  = 1

  providers = { aws = aws.elsewhere }

  name_prefix   = "counted-${count.index}"
  functions_dir = var.functions_dir
  account       = { id = "123456789012", region = "us-east-1" }

  depends_on = [aws_sns_topic.pages]
}

output "config_tables" {
  description = "Tables by deployment."
  value       = { for name, deployment in module.each : name => deployment.config_table }
}

output "counted_bucket" {
  description = "A name that has account and region in it, known although something is depended on."
  value       = module.counted[0].dead_letter_bucket
}
