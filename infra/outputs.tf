output "publish_url" {
  description = "Base URL of the publish API, without a slash at the end. A topic's endpoint is <publish_url>/topics/<topic>/api/events."
  value       = local.publish_url
}

output "manage_url" {
  description = "Base URL of the manage API, without a slash at the end. Requests are signed with IAM credentials (service execute-api)."
  value       = local.manage_url
}

output "dead_letter_bucket" {
  description = "Bucket that subscriptions can name as dead-letter destination without further permission."
  value       = aws_s3_bucket.dead_letters.bucket
}

output "dead_letter_role_arn" {
  description = "Role that writes dead letters and sends them again: to be named in the bucket or key policy of another account's bucket."
  value       = module.dead_letter.role_arn
}

output "manage_role_arn" {
  description = "Role that lists and purges dead letters: the same."
  value       = module.manage.role_arn
}

output "region" {
  description = "AWS region of the deployment."
  value       = var.region
}

output "name_prefix" {
  description = "First part of every name of this deployment."
  value       = var.name_prefix
}

output "function_names" {
  description = "Lambda function names by function."
  value = {
    ingest      = module.ingest.name
    dispatch    = module.dispatch.name
    dead-letter = module.dead_letter.name
    manage      = module.manage.name
    wake        = module.wake.name
  }
}

output "queue_urls" {
  description = "SQS queue URLs; retry is a list in shard order."
  value = {
    dispatch    = aws_sqs_queue.dispatch.url
    retry       = aws_sqs_queue.retry[*].url
    dead_letter = aws_sqs_queue.dead_letter.url
    fan_out     = aws_sqs_queue.fan_out.url
    redrive     = aws_sqs_queue.redrive.url
    poison      = aws_sqs_queue.poison.url
  }
}

output "config_table" {
  description = "DynamoDB table of topics and event subscriptions."
  value       = aws_dynamodb_table.config.name
}

output "state_table" {
  description = "DynamoDB table of endpoint health, failing and parked deliveries, redrive jobs."
  value       = aws_dynamodb_table.state.name
}

output "publish_command" {
  description = "Publishes one event to the topic demo, once GRIDPOST_KEY holds one of the topic's keys. Print it with terraform output -raw publish_command."
  value       = <<-EOT
    curl --fail-with-body -sS '${local.publish_url}/topics/demo/api/events' \
      -H "aeg-sas-key: $GRIDPOST_KEY" -H 'content-type: application/json' \
      -d '[{"id":"'"$(date +%s)"'","eventType":"Demo.Greeting","subject":"/demo/first","eventTime":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'","dataVersion":"1","data":{"hello":"world"}}]'
  EOT
}
