terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }

  # Terraform keeps its state on this machine unless you name a bucket here. The state holds no secrets.
  # backend "s3" {
  #   bucket       = "my-terraform-state"
  #   key          = "gridpost/terraform.tfstate"
  #   region       = "eu-central-1"
  #   use_lockfile = true
  # }
}
