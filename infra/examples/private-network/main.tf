# Endpoints in a private network, and one fixed source address for those outside: dispatch and manage run in private subnets
# behind one NAT gateway. Put your own network in place of this one.
#
# A NAT gateway costs some 33 dollars a month and 0.045 dollars per GB. Without one, give the subnets endpoints for SQS and Lambda
# instead (7 dollars a month each, for each zone; the description of the module's input vpc names more, for what you use): then
# dispatch reaches private endpoints only.

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

variable "functions_dir" {
  description = "Directory with the functions' zips; null for target/lambda of this repository."
  type        = string
  default     = null
}

locals {
  # The network's range; endpoints may have its addresses.
  network = "10.20.0.0/16"
  zones   = ["${var.region}a", "${var.region}b"]
}

resource "aws_vpc" "this" {
  cidr_block           = local.network
  enable_dns_support   = true
  enable_dns_hostnames = true
}

resource "aws_subnet" "private" {
  count = length(local.zones)

  vpc_id            = aws_vpc.this.id
  availability_zone = local.zones[count.index]
  cidr_block        = cidrsubnet(local.network, 4, count.index)
}

resource "aws_subnet" "public" {
  vpc_id            = aws_vpc.this.id
  availability_zone = local.zones[0]
  cidr_block        = cidrsubnet(local.network, 4, 15)
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_eip" "outside" {
  domain = "vpc"
}

resource "aws_nat_gateway" "this" {
  allocation_id = aws_eip.outside.id
  subnet_id     = aws_subnet.public.id

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this.id
  }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id

  route {
    cidr_block     = "0.0.0.0/0"
    nat_gateway_id = aws_nat_gateway.this.id
  }
}

resource "aws_route_table_association" "public" {
  subnet_id      = aws_subnet.public.id
  route_table_id = aws_route_table.public.id
}

resource "aws_route_table_association" "private" {
  count = length(local.zones)

  subnet_id      = aws_subnet.private[count.index].id
  route_table_id = aws_route_table.private.id
}

# These are free, and save the NAT gateway's charge for the traffic through them.
resource "aws_vpc_endpoint" "gateway" {
  for_each = toset(["dynamodb", "s3"])

  vpc_id          = aws_vpc.this.id
  service_name    = "com.amazonaws.${var.region}.${each.key}"
  route_table_ids = [aws_route_table.private.id]
}

# Allows calls to HTTPS anywhere, and to the private endpoints' ports.
resource "aws_security_group" "deliveries" {
  name        = "gridpost-deliveries"
  description = "What Gridpost calls"
  vpc_id      = aws_vpc.this.id

  egress {
    description = "Endpoints outside, and AWS"
    from_port   = 443
    to_port     = 443
    protocol    = "tcp"
    cidr_blocks = ["0.0.0.0/0"]
  }

  egress {
    description = "Endpoints in the network"
    from_port   = 8080
    to_port     = 8080
    protocol    = "tcp"
    cidr_blocks = [local.network]
  }
}

module "gridpost" {
  source = "../.."

  functions_dir = var.functions_dir

  vpc = {
    subnet_ids         = aws_subnet.private[*].id
    security_group_ids = [aws_security_group.deliveries.id]
  }

  # Without it private addresses are refused as usual: otherwise anyone who may create event subscriptions could reach the
  # network.
  endpoint_allowed_networks = [local.network]
  endpoint_allowed_ports    = ["443", "8080"]
}

output "publish_url" {
  description = "Base URL of the publish API."
  value       = module.gridpost.publish_url
}

output "outside_address" {
  description = "Source address of requests to public endpoints, for their firewalls."
  value       = aws_eip.outside.public_ip
}
