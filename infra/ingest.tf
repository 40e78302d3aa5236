# ingest: authenticates, validates, matches, packs and enqueues what publishers send. Reads configuration, writes one queue, and
# one bucket for what is too large for a message. Publishes that make too many deliveries for one request are stored in that
# bucket, and it expands them itself from the fan-out queue: what it needs for that it has, and may do, already, but for reading
# what it has stored.

module "ingest" {
  source = "./modules/function"

  name                 = "${var.name_prefix}-ingest"
  settings             = local.function_settings
  description          = "Gridpost: accepts published events and enqueues their deliveries"
  package              = local.packages["ingest"]
  architecture         = var.architecture
  memory_mb            = local.memory_mb["ingest"]
  timeout_seconds      = local.timeout_seconds["ingest"]
  reserved_concurrency = var.ingest_reserved_concurrency
  log_retention_days   = var.log_retention_days
  live_version         = lookup(var.live_versions, "ingest", null)

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE            = local.config_table_name
    GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
    GRIDPOST_FAN_OUT_QUEUE_URL       = local.fan_out_queue_url
    GRIDPOST_POISON_QUEUE_URL        = local.poison_queue_url
    GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
    GRIDPOST_INLINE_FAN_OUT          = tostring(var.inline_fan_out)
    GRIDPOST_LATENCY_METRICS         = tostring(var.latency_metrics)
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = tostring(var.queue_message_bytes_max)
    GRIDPOST_CONFIG_CACHE_MS         = tostring(var.config_cache_ms)
    GRIDPOST_CONFIG_STALE_SECONDS    = tostring(var.config_stale_seconds)
    GRIDPOST_PUBLISH_AUTHORIZATION   = var.publish_authorization
  })

  statements = concat([
    {
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem", "dynamodb:Query"]
      resources = [local.config_table_arn]
      # Behind an authorizer no access key is asked for.
      leading_keys = concat(["TOPIC#*"], var.publish_authorization == "KEYS" ? ["KEYS#*"] : [])
    },
    {
      sid       = "EnqueueDeliveries"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn, local.fan_out_queue_arn, local.poison_queue_arn]
    },
    {
      sid       = "ConsumeFanOuts"
      actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
      resources = [local.fan_out_queue_arn]
    },
    {
      sid       = "StorePayloads"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*", "${local.payload_bucket_arn}/publishes/*"]
    },
    {
      sid       = "TakePublishes"
      actions   = ["s3:GetObject"]
      resources = ["${local.payload_bucket_arn}/publishes/*"]
    },
    # Without it S3 answers 403 for a publish that is not there, which is no proof that it is gone.
    {
      sid       = "SeeThatPublishesAreGone"
      actions   = ["s3:ListBucket"]
      resources = [local.payload_bucket_arn]
    },
  ], local.key_statements)
}

# One piece makes thousands of deliveries, so each has an invocation of its own.
resource "aws_lambda_event_source_mapping" "fan_out" {
  event_source_arn                   = aws_sqs_queue.fan_out.arn
  tags                               = local.tags
  function_name                      = module.ingest.arn
  batch_size                         = 1
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.fan_out_concurrency
  }

  lifecycle {
    precondition {
      condition     = var.ingest_reserved_concurrency == null || try(var.fan_out_concurrency < var.ingest_reserved_concurrency, false)
      error_message = "fan_out_concurrency, ${var.fan_out_concurrency}, must be below ingest_reserved_concurrency, ${coalesce(var.ingest_reserved_concurrency, 0)}: publishes would wait for large ones to be expanded."
    }
  }
}
