# dead-letter: gathers ended deliveries into objects. It may neither read nor delete dead letters.

module "dead_letter" {
  source = "./modules/function"

  name        = "${var.name_prefix}-dead-letter"
  settings    = local.function_settings
  description = "Gridpost: writes dead letters to S3"
  program     = local.function_programs["dead-letter"]

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE                = local.config_table_name
    GRIDPOST_DISPATCH_QUEUE_URL          = local.dispatch_queue_url
    GRIDPOST_DEAD_LETTER_QUEUE_URL       = local.dead_letter_queue_url
    GRIDPOST_POISON_QUEUE_URL            = local.poison_queue_url
    GRIDPOST_PAYLOAD_BUCKET              = local.payload_bucket_name
    GRIDPOST_CONFIG_CACHE_MS             = tostring(var.config_cache_ms)
    GRIDPOST_CONFIG_STALE_SECONDS        = tostring(var.config_stale_seconds)
    GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS = tostring(var.dead_letter_give_up_seconds)
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX     = tostring(var.queue_message_bytes_max)
  }, var.dead_letter_topic == null ? {} : { GRIDPOST_DEAD_LETTER_TOPIC = var.dead_letter_topic })

  statements = concat([
    {
      sid = "ConsumeAndHideDeadLetters"
      actions = [
        "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility",
      ]
      resources = [local.dead_letter_queue_arn]
    },
    {
      # To dispatch: deliveries of the events about objects. To poison: messages that are not ended deliveries.
      sid       = "TellOrPutAside"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn, local.poison_queue_arn]
    },
    {
      # The event subscriptions that get an event about an object.
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem", "dynamodb:Query"]
      resources = [local.config_table_arn]
      # Access keys are in separate items.
      leading_keys = ["TOPIC#*"]
    },
    {
      sid       = "WriteDeadLetters"
      actions   = ["s3:PutObject"]
      resources = [for arn in local.dead_letter_bucket_arns : "${arn}/*"]
    },
  ], local.payload_read_statements, local.key_statements, local.further_bucket_key_statements_of["GenerateDataKey"])
}

resource "aws_lambda_event_source_mapping" "dead_letter" {
  event_source_arn                   = aws_sqs_queue.dead_letter.arn
  tags                               = local.tags
  function_name                      = module.dead_letter.arn
  batch_size                         = var.dead_letter_batch_size
  maximum_batching_window_in_seconds = var.dead_letter_window_seconds
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.dead_letter_concurrency
  }

  lifecycle {
    precondition {
      condition     = var.dead_letter_batch_size <= 10 || var.dead_letter_window_seconds >= 1
      error_message = "dead_letter_batch_size over 10 needs dead_letter_window_seconds of at least 1 (a rule of Lambda), got ${var.dead_letter_batch_size} and ${var.dead_letter_window_seconds}."
    }
  }
}
