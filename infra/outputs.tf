output "publish_url" {
  description = "Base URL of the publish API, without a slash at the end. A topic's endpoint is <publish_url>/topics/<topic>/api/events."
  value       = local.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API, without a slash at the end. Requests are signed with IAM credentials (service execute-api)."
  value       = local.manage_url
}

output "domain_targets" {
  description = "Where your custom domains must point (CNAME or alias record), by API: publish and manage, if they have one."
  value = {
    for api, domain in aws_apigatewayv2_domain_name.this : api => {
      name    = domain.domain_name_configuration[0].target_domain_name
      zone_id = domain.domain_name_configuration[0].hosted_zone_id
    }
  }
}

output "dead_letter_bucket" {
  description = "Bucket that event subscriptions can name as dead-letter destination without further permission."
  value       = aws_s3_bucket.dead_letters.bucket
}

output "dead_letter_role_arn" {
  description = "Role that writes dead letters. A bucket in another account must allow it in its bucket policy and key policy."
  value       = module.dead_letter.role_arn
}

output "redrive_role_arn" {
  description = "Role that reads dead letters and sends them again. A dead-letter bucket in another account must allow it s3:ListBucket, s3:GetObject and kms:Decrypt."
  value       = module.redrive.role_arn
}

output "manage_role_arn" {
  description = "Role that lists and purges dead letters. A dead-letter bucket in another account must allow it s3:ListBucket, s3:GetObject, s3:DeleteObject and kms:Decrypt."
  value       = module.manage.role_arn
}

output "region" {
  description = "AWS region of the deployment."
  value       = local.region
}

output "name_prefix" {
  description = "First part of every name of this deployment."
  value       = var.name_prefix
}

output "function_names" {
  description = "Lambda function names by function."
  value       = { for name, function in local.functions : name => function.name }
}

output "function_arns" {
  description = "ARNs to invoke, by function; with versions, those of the aliases live."
  value       = { for name, function in local.functions : name => function.arn }
}

output "role_arns" {
  description = "ARNs of the functions' roles by function. Resources in other accounts that receive events must allow dispatch's role."
  value       = { for name, function in local.functions : name => function.role_arn }
}

output "log_group_names" {
  description = "CloudWatch log groups by function."
  value       = { for name, function in local.functions : name => function.log_group_name }
}

output "queue_urls" {
  description = "SQS queue URLs; retry is a list in shard order."
  value = {
    dispatch    = aws_sqs_queue.dispatch.url
    retry       = aws_sqs_queue.retry[*].url
    slow        = aws_sqs_queue.slow.url
    dead_letter = aws_sqs_queue.dead_letter.url
    fan_out     = aws_sqs_queue.fan_out.url
    redrive     = aws_sqs_queue.redrive.url
    poison      = aws_sqs_queue.poison.url
  }
}

output "queue_arns" {
  description = "SQS queue ARNs; retry is a list in shard order."
  value = {
    dispatch    = aws_sqs_queue.dispatch.arn
    retry       = aws_sqs_queue.retry[*].arn
    slow        = aws_sqs_queue.slow.arn
    dead_letter = aws_sqs_queue.dead_letter.arn
    fan_out     = aws_sqs_queue.fan_out.arn
    redrive     = aws_sqs_queue.redrive.arn
    poison      = aws_sqs_queue.poison.arn
  }
}

output "table_arns" {
  description = "DynamoDB table ARNs: config and state."
  value       = { config = aws_dynamodb_table.config.arn, state = aws_dynamodb_table.state.arn }
}

output "bucket_arns" {
  description = "S3 bucket ARNs: dead_letters and payloads."
  value       = { dead_letters = aws_s3_bucket.dead_letters.arn, payloads = aws_s3_bucket.payloads.arn }
}

output "publish_api_id" {
  description = "Id of the publish API; null with publish_front_door FUNCTION_URL."
  value       = one(aws_apigatewayv2_api.publish[*].id)
}

output "publish_execution_arn" {
  description = "First part of the ARNs in publishers' execute-api:Invoke permissions: <this>/$default/POST/topics/<topic>/api/events. Null with publish_front_door FUNCTION_URL."
  value       = one(aws_apigatewayv2_api.publish[*].execution_arn)
}

output "publish_host" {
  description = "Host name of the publish API itself, for a CDN or a firewall in front of it."
  value       = split("/", replace(local.publish_own_url, "/^https?:\\/\\//", ""))[0]
}

output "manage_api_id" {
  description = "Id of the manage API."
  value       = aws_apigatewayv2_api.manage.id
}

output "manage_execution_arn" {
  description = "First part of the ARNs in operators' execute-api:Invoke permissions, such as <this>/$default/GET/topics*."
  value       = aws_apigatewayv2_api.manage.execution_arn
}

output "manage_host" {
  description = "Host name of manage_url."
  value       = split("/", replace(local.manage_url, "/^https?:\\/\\//", ""))[0]
}

output "config_table" {
  description = "DynamoDB table of topics and event subscriptions."
  value       = aws_dynamodb_table.config.name
}

output "state_table" {
  description = "DynamoDB table of endpoint health, failing and parked deliveries, redrive jobs."
  value       = aws_dynamodb_table.state.name
}

output "aws_sources" {
  description = "What modules/aws-source needs of the deployment, as its input gridpost; null without aws_sources = true."
  value       = var.aws_sources ? local.intake : null
}

output "publish_command" {
  description = "Publishes one event to the topic demo; print it with terraform output -raw publish_command. It takes the credentials that publish_authorization requires from the environment: one of the topic's keys (GRIDPOST_KEY), IAM credentials (AWS_ACCESS_KEY_ID and so on), or a token (GRIDPOST_TOKEN)."
  value       = <<-EOT
    curl --fail-with-body -sS '${local.publish_url}/topics/demo/api/events' \
      ${local.publish_credentials[var.publish_authorization]} -H 'content-type: application/json' \
      -d '[{"id":"'"$(date +%s)"'","eventType":"Demo.Greeting","subject":"/demo/first","eventTime":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'","dataVersion":"1","data":{"hello":"world"}}]'
  EOT
}
