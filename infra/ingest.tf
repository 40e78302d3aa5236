# ingest: authenticates, validates, matches, packs and enqueues publishes. It reads configuration and writes to one queue, and to
# one bucket for events that are too large for a message. It also stores there the publishes that make too many deliveries for one
# request, and sends their pieces to the fan-out queue, from which expand makes the deliveries. Where a topic heeds the keys of
# publishes, it notes them in the state table.

locals {
  # The digest of a random secret does not tell the secret.
  origin_environment = length(var.origin_secret_sha256) == 0 ? {} : {
    GRIDPOST_ORIGIN_SECRET_SHA256 = nonsensitive(join(",", var.origin_secret_sha256))
  }
}

module "ingest" {
  source = "./modules/function"

  name                 = "${var.name_prefix}-ingest"
  settings             = local.function_settings
  description          = "Gridpost: accepts published events and enqueues their deliveries"
  program              = local.function_programs["ingest"]
  reserved_concurrency = var.ingest_reserved_concurrency

  environment = merge(local.common_environment, local.origin_environment, {
    GRIDPOST_CONFIG_TABLE            = local.config_table_name
    GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
    GRIDPOST_FAN_OUT_QUEUE_URL       = local.fan_out_queue_url
    GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
    GRIDPOST_STATE_TABLE             = local.state_table_name
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
      # Behind an authorizer ingest needs no access keys.
      leading_keys = concat(["TOPIC#*"], var.publish_authorization == "KEYS" ? ["KEYS#*"] : [])
    },
    {
      sid       = "EnqueueDeliveries"
      actions   = ["sqs:SendMessage"]
      resources = [local.dispatch_queue_arn, local.fan_out_queue_arn]
    },
    {
      sid       = "StorePayloads"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*", "${local.payload_bucket_arn}/publishes/*"]
    },
    {
      # Publishes with a key, to topics that heed keys. A write whose condition does not hold answers with what is stored, so
      # nothing need be read.
      sid          = "RecordKeyedPublishes"
      actions      = ["dynamodb:PutItem"]
      resources    = [local.state_table_arn]
      leading_keys = ["PUBLISH#*"]
    },
  ], local.key_statements)
}
