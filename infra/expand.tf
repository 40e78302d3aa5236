# expand: makes the deliveries of publishes that have too many for one request. ingest stores these publishes in the payload
# bucket, and expand processes them piece by piece. It reads no configuration: the stored publish holds every decision.

module "expand" {
  source = "./modules/function"

  name        = "${var.name_prefix}-expand"
  settings    = local.function_settings
  description = "Gridpost: makes the deliveries of large publishes"
  program     = local.function_programs["expand"]

  environment = merge(local.common_environment, {
    GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
    GRIDPOST_FAN_OUT_QUEUE_URL       = local.fan_out_queue_url
    GRIDPOST_POISON_QUEUE_URL        = local.poison_queue_url
    GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = tostring(var.queue_message_bytes_max)
  })

  statements = concat([
    {
      sid       = "ConsumeFanOuts"
      actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
      resources = [local.fan_out_queue_arn]
    },
    {
      # It sends the rest of a piece to the fan-out queue when its time is up.
      sid       = "EnqueueDeliveries"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn, local.fan_out_queue_arn, local.poison_queue_arn]
    },
    {
      sid       = "TakePublishes"
      actions   = ["s3:GetObject"]
      resources = ["${local.payload_bucket_arn}/publishes/*"]
    },
    # Without it S3 answers 403 for a missing publish, which does not prove that it is gone.
    {
      sid       = "SeeThatPublishesAreGone"
      actions   = ["s3:ListBucket"]
      resources = [local.payload_bucket_arn]
    },
    {
      sid       = "StorePayloads"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*"]
    },
  ], local.key_statements_of["s3"], local.key_statements_of["sqs"], local.former_key_statements)
}

# A piece makes thousands of deliveries, so each gets its own invocation.
resource "aws_lambda_event_source_mapping" "fan_out" {
  event_source_arn                   = aws_sqs_queue.fan_out.arn
  tags                               = local.tags
  function_name                      = module.expand.arn
  batch_size                         = 1
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.fan_out_concurrency
  }
}
