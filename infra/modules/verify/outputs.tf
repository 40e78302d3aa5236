output "queue_arn" {
  description = "ARN of the queue that events are delivered to: for resource_destinations of the deployment, and --queue."
  value       = local.queue_arn
}

output "reports_arn" {
  description = "ARN of the queue into which the webhook reports what it gets: for --reports."
  value       = local.reports_arn
}

output "webhook_url" {
  description = "URL of the webhook, with the token that opens it: for --webhook."
  value       = local.webhook_url
  sensitive   = true
}

output "arguments" {
  description = "The flags of gridpost verify that name all of it: terraform output -raw."
  value       = "--queue ${local.queue_arn} --reports ${local.reports_arn} --webhook ${local.webhook_url}"
  sensitive   = true
}

output "policy_json" {
  description = "What an identity that runs gridpost verify must be allowed beside execute-api:Invoke on the manage API, and logs:FilterLogEvents on the functions' log groups: reading both queues."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "ReadProbeQueues"
      Effect   = "Allow"
      Action   = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
      Resource = [local.queue_arn, local.reports_arn]
    }]
  })
}
