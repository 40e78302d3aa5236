output "queue_arn" {
  description = "Queue that the source's messages wait in: for notifications of your own (s3.notification = false)."
  value       = local.own_queue ? local.queue_arn : aws_sqs_queue.this[0].arn
}

output "poison_queue_url" {
  description = "Queue with the messages that could not become events of the topic."
  value       = aws_sqs_queue.poison.url
}

output "poison_queue_arn" {
  description = "ARN of that queue, for a redrive of SQS (start-message-move-task), and for the redrive policy of a queue of your own: without it there, SQS refuses the redrive."
  value       = aws_sqs_queue.poison.arn
}

output "function_name" {
  description = "Name of the source's function."
  value       = module.intake.name
}

output "role_arn" {
  description = "Role of the source's function: a queue of another account must allow it to receive and delete."
  value       = module.intake.role_arn
}
