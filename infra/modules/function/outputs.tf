output "arn" {
  description = "ARN of the function."
  value       = aws_lambda_function.this.arn
}

output "name" {
  description = "Name of the function."
  value       = aws_lambda_function.this.function_name
}

output "invoke_arn" {
  description = "ARN by which API Gateway invokes the function."
  value       = aws_lambda_function.this.invoke_arn
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
