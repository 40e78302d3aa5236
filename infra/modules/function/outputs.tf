output "arn" {
  description = "ARN of what is to be invoked: the alias live where there are versions, else the function."
  value       = one(concat(local.alias[*].arn, var.settings.versions ? [] : [aws_lambda_function.this.arn]))
}

output "qualifier" {
  description = "live where there are versions, else null."
  value       = one(local.alias[*].name)
}

output "name" {
  description = "Name of the function."
  value       = aws_lambda_function.this.function_name
}

output "invoke_arn" {
  description = "ARN by which API Gateway invokes the function."
  value       = one(concat(local.alias[*].invoke_arn, var.settings.versions ? [] : [aws_lambda_function.this.invoke_arn]))
}

output "role_arn" {
  description = "ARN of the function's role."
  value       = aws_iam_role.this.arn
}

output "role_name" {
  description = "Name of the function's role."
  value       = aws_iam_role.this.name
}

output "log_group_name" {
  description = "Name of the function's log group."
  value       = aws_cloudwatch_log_group.this.name
}

output "policy" {
  description = "The role's policy, as JSON: all that the function may do."
  value       = local.policy
}

output "environment" {
  description = "The function's environment variables."
  value       = var.environment
}

output "reserved_concurrency" {
  description = "Concurrent runs that are kept for the function; null for its share of the account's."
  value       = var.reserved_concurrency
}

output "vpc" {
  description = "Subnets and security groups of the function; null for Lambda's own network."
  value       = var.vpc
}

output "live_version" {
  description = "Version that Terraform holds the alias live at; null for the newest, or where gridpost rollout leads it."
  value       = var.live_version
}
