# ingest: authenticates, validates, matches, packs and enqueues what publishers send. Reads configuration, writes one queue, and
# one bucket for what is too large for a message.

module "ingest" {
  source = "./modules/function"

  name               = "${var.name_prefix}-ingest"
  region             = var.region
  description        = "Gridpost: accepts published events and enqueues their deliveries"
  zip_file           = "${local.functions_dir}/ingest/bootstrap.zip"
  architecture       = var.architecture
  memory_mb          = local.memory_mb["ingest"]
  timeout_seconds    = local.timeout_seconds["ingest"]
  log_retention_days = var.log_retention_days

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE            = local.config_table_name
    GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
    GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = tostring(var.queue_message_bytes_max)
    GRIDPOST_CONFIG_CACHE_MS         = tostring(var.config_cache_ms)
    GRIDPOST_PUBLISH_AUTHORIZATION   = var.publish_authorization
  })

  statements = [
    {
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem", "dynamodb:Query"]
      resources = [local.config_table_arn]
    },
    {
      sid       = "EnqueueDeliveries"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn]
    },
    {
      sid       = "StorePayloads"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*"]
    },
  ]
}
