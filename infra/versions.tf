terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # Only arguments that 5.90 knows are used, so the same files work under 5.x and 6.x.
      version = ">= 5.90, < 7"
    }
  }
}
