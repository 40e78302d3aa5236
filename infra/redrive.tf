# redrive: sends dead letters again when a job asks for it. It may not delete them or write to their bucket.

module "redrive" {
  source = "./modules/function"

  name        = "${var.name_prefix}-redrive"
  settings    = local.function_settings
  description = "Gridpost: sends dead letters again"
  program     = local.function_programs["redrive"]

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE            = local.config_table_name
    GRIDPOST_STATE_TABLE             = local.state_table_name
    GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
    GRIDPOST_REDRIVE_QUEUE_URL       = local.redrive_queue_url
    GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = tostring(var.queue_message_bytes_max)
  })

  statements = concat([
    {
      sid = "ConsumeAndHideRedrives"
      actions = [
        "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility",
      ]
      resources = [local.redrive_queue_arn]
    },
    {
      # In its own queue, it replaces a message that was received too often with a new one.
      sid       = "SendAgain"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn, local.redrive_queue_arn]
    },
    {
      # To check whether the target event subscription still exists.
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem"]
      resources = [local.config_table_arn]
      # Access keys are in separate items.
      leading_keys = ["TOPIC#*"]
    },
    {
      sid       = "KeepRedrives"
      actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
      resources = [local.state_table_arn]
    },
    {
      sid       = "ReadDeadLetters"
      actions   = ["s3:GetObject"]
      resources = [for arn in local.dead_letter_bucket_arns : "${arn}/*"]
    },
    {
      sid       = "FindDeadLetters"
      actions   = ["s3:ListBucket"]
      resources = local.dead_letter_bucket_arns
    },
    {
      sid       = "StorePayloads"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*"]
    },
  ], local.key_statements, local.further_bucket_key_statements_of["Decrypt"])
}

# Each invocation works on one job until its time is up.
resource "aws_lambda_event_source_mapping" "redrive" {
  event_source_arn                   = aws_sqs_queue.redrive.arn
  tags                               = local.tags
  function_name                      = module.redrive.arn
  batch_size                         = 1
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]
  enabled                            = var.redrive_concurrency > 0

  scaling_config {
    # Lambda takes no less than 2, which a mapping that is not enabled doesn't use.
    maximum_concurrency = max(var.redrive_concurrency, 2)
  }
}
