terraform {
  required_version = ">= 1.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }
  }

  # Where the state is kept: on this machine, unless a bucket of your own is named here. It holds no secrets.
  # backend "s3" {
  #   bucket       = "my-terraform-state"
  #   key          = "gridpost/terraform.tfstate"
  #   region       = "eu-central-1"
  #   use_lockfile = true
  # }
}
