# A deployment with every default, in the account and region of the environment (AWS_PROFILE, AWS_REGION).

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

module "gridpost" {
  source = "../.."

  # Null: target/lambda of this repository, where cargo lambda build puts them.
  functions_dir = var.functions_dir
}

variable "functions_dir" {
  description = "Directory with the functions' zips; null for target/lambda of this repository."
  type        = string
  default     = null
}

output "publish_url" {
  description = "Base URL of the publish API."
  value       = module.gridpost.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API."
  value       = module.gridpost.manage_url
}
