# Written by infra/reference.py: what the module takes and gives, passed on.

output "publish_url" {
  description = "Base URL of the publish API, without a slash at the end. A topic's endpoint is <publish_url>/topics/<topic>/api/events."
  value       = module.gridpost.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API, without a slash at the end. Requests are signed with IAM credentials (service execute-api)."
  value       = module.gridpost.manage_url
}

output "domain_targets" {
  description = "Where your custom domains must point (CNAME or alias record), by API: publish and manage, if they have one."
  value       = module.gridpost.domain_targets
}

output "dead_letter_bucket" {
  description = "Bucket that event subscriptions can name as dead-letter destination without further permission."
  value       = module.gridpost.dead_letter_bucket
}

output "dead_letter_role_arn" {
  description = "Role that writes dead letters. A bucket in another account must allow it in its bucket policy and key policy."
  value       = module.gridpost.dead_letter_role_arn
}

output "redrive_role_arn" {
  description = "Role that reads dead letters and sends them again. A dead-letter bucket in another account must allow it s3:ListBucket, s3:GetObject and kms:Decrypt."
  value       = module.gridpost.redrive_role_arn
}

output "manage_role_arn" {
  description = "Role that lists and purges dead letters. A dead-letter bucket in another account must allow it s3:ListBucket, s3:GetObject, s3:DeleteObject and kms:Decrypt."
  value       = module.gridpost.manage_role_arn
}

output "region" {
  description = "AWS region of the deployment."
  value       = module.gridpost.region
}

output "name_prefix" {
  description = "First part of every name of this deployment."
  value       = module.gridpost.name_prefix
}

output "function_names" {
  description = "Lambda function names by function."
  value       = module.gridpost.function_names
}

output "function_arns" {
  description = "ARNs to invoke, by function; with versions, those of the aliases live."
  value       = module.gridpost.function_arns
}

output "role_arns" {
  description = "ARNs of the functions' roles by function. Resources in other accounts that receive events must allow dispatch's role."
  value       = module.gridpost.role_arns
}

output "log_group_names" {
  description = "CloudWatch log groups by function."
  value       = module.gridpost.log_group_names
}

output "queue_urls" {
  description = "SQS queue URLs; retry is a list in shard order."
  value       = module.gridpost.queue_urls
}

output "queue_arns" {
  description = "SQS queue ARNs; retry is a list in shard order."
  value       = module.gridpost.queue_arns
}

output "table_arns" {
  description = "DynamoDB table ARNs: config and state."
  value       = module.gridpost.table_arns
}

output "bucket_arns" {
  description = "S3 bucket ARNs: dead_letters and payloads."
  value       = module.gridpost.bucket_arns
}

output "publish_api_id" {
  description = "Id of the publish API; null with publish_front_door FUNCTION_URL."
  value       = module.gridpost.publish_api_id
}

output "publish_execution_arn" {
  description = "First part of the ARNs in publishers' execute-api:Invoke permissions: <this>/$default/POST/topics/<topic>/api/events. Null with publish_front_door FUNCTION_URL."
  value       = module.gridpost.publish_execution_arn
}

output "publish_host" {
  description = "Host name of publish_url, for a CDN or a firewall in front of it."
  value       = module.gridpost.publish_host
}

output "manage_api_id" {
  description = "Id of the manage API."
  value       = module.gridpost.manage_api_id
}

output "manage_execution_arn" {
  description = "First part of the ARNs in operators' execute-api:Invoke permissions, such as <this>/$default/GET/topics*."
  value       = module.gridpost.manage_execution_arn
}

output "manage_host" {
  description = "Host name of manage_url."
  value       = module.gridpost.manage_host
}

output "config_table" {
  description = "DynamoDB table of topics and event subscriptions."
  value       = module.gridpost.config_table
}

output "state_table" {
  description = "DynamoDB table of endpoint health, failing and parked deliveries, redrive jobs."
  value       = module.gridpost.state_table
}

output "aws_sources" {
  description = "What modules/aws-source needs of the deployment, as its input gridpost; null without aws_sources = true."
  value       = module.gridpost.aws_sources
}

output "publish_command" {
  description = "Publishes one event to the topic demo; print it with terraform output -raw publish_command. It takes the credentials that publish_authorization requires from the environment: one of the topic's keys (GRIDPOST_KEY), IAM credentials (AWS_ACCESS_KEY_ID and so on), or a token (GRIDPOST_TOKEN)."
  value       = module.gridpost.publish_command
}
