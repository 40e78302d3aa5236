output "queue_arn" {
  description = "ARN of the queue that receives events: for the deployment's resource_destinations, and for --queue."
  value       = local.queue_arn
}

output "reports_arn" {
  description = "ARN of the queue in which the webhook reports what it receives: for --reports."
  value       = local.reports_arn
}

output "webhook_url" {
  description = "URL of the webhook, with its token: for --webhook."
  value       = local.webhook_url
  sensitive   = true
}

output "arguments" {
  description = "The flags for gridpost verify that name these resources, for terraform output -raw."
  value       = "--queue ${local.queue_arn} --reports ${local.reports_arn} --webhook ${local.webhook_url}"
  sensitive   = true
}

output "policy_json" {
  description = "Policy for the identity that runs gridpost verify: it may read both queues. The identity also needs execute-api:Invoke on the manage API and logs:FilterLogEvents on the log groups of ingest and dispatch."
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
