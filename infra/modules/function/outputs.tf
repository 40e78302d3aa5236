output "arn" {
  description = "ARN to invoke: the alias live if there are versions, otherwise the function."
  value       = one(concat(local.alias[*].arn, var.settings.versions ? [] : [aws_lambda_function.this.arn]))
}

output "qualifier" {
  description = "live if there are versions, otherwise null."
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
  value       = local.log_group
}

output "policy" {
  description = "The role's policy, as JSON: all permissions of the function but those on network interfaces."
  value       = local.policy
}

output "network_policy" {
  description = "The role's policy on network interfaces, as JSON; null without vpc."
  value       = one(aws_iam_role_policy.network[*].policy)
}

output "environment" {
  description = "The function's environment variables."
  value       = var.environment
}

output "reserved_concurrency" {
  description = "Concurrency reserved for the function; null for none."
  value       = var.reserved_concurrency
}

output "vpc" {
  description = "Subnets and security groups of the function; null for Lambda's own network."
  value       = var.vpc
}

output "live_version" {
  description = "Version at which Terraform keeps the alias live; null for the newest, or if gridpost rollout moves it."
  value       = var.program.live_version
}
