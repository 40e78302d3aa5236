# intake: takes events of AWS services into topics. Each source (an EventBridge rule, a bucket, an SNS topic, an SQS queue) is an
# instance of modules/aws-source with a queue and a function of its own. Here is what they share, and only with aws_sources = true:
# without it nothing exists.

# One log group for all of them, so that gridpost audit finds what came in.
resource "aws_cloudwatch_log_group" "intake" {
  # checkov:skip=CKV_AWS_158:encrypted with CloudWatch's own key; log lines hold no payloads and no secrets
  # checkov:skip=CKV_AWS_338:the operator decides how long (log_retention_days)
  count = var.aws_sources ? 1 : 0

  name              = "/aws/lambda/${var.name_prefix}-intake"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arns.logs
  tags              = local.tags
}

locals {
  intake = {
    name_prefix = var.name_prefix
    account     = local.account
    tags        = local.tags
    function = {
      # Terraform leads the functions of sources: gridpost rollout does not know them.
      settings       = merge(local.function_settings, { versions = false, rollout = false })
      program        = local.function_programs["intake"]
      log_group_name = one(aws_cloudwatch_log_group.intake[*].name)
      # With more than 10,000 the function might end before it has sent them all, each time.
      environment = merge(local.common_environment, {
        GRIDPOST_CONFIG_TABLE            = local.config_table_name
        GRIDPOST_DISPATCH_QUEUE_URL      = local.dispatch_queue_url
        GRIDPOST_FAN_OUT_QUEUE_URL       = local.fan_out_queue_url
        GRIDPOST_PAYLOAD_BUCKET          = local.payload_bucket_name
        GRIDPOST_INLINE_FAN_OUT          = tostring(min(var.inline_fan_out, 10000))
        GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = tostring(var.queue_message_bytes_max)
        GRIDPOST_CONFIG_CACHE_MS         = tostring(var.config_cache_ms)
        GRIDPOST_CONFIG_STALE_SECONDS    = tostring(var.config_stale_seconds)
      })
      # What every source's role may do besides its own queues: what ingest may, without keys and records of publishes.
      statements = concat([
        {
          sid          = "ReadConfig"
          actions      = ["dynamodb:GetItem", "dynamodb:Query"]
          resources    = [local.config_table_arn]
          leading_keys = ["TOPIC#*"]
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
      ], local.key_statements)
    }
    queues = {
      arn_prefix         = local.queue_arn_prefix
      url_prefix         = local.queue_url_prefix
      kms_key_arn        = local.sqs_key_arn
      message_bytes_max  = var.queue_message_bytes_max
      retention_seconds  = local.queue_retention_seconds
      receives_max       = local.receives_max
      visibility_seconds = local.timeout_seconds["intake"] + 30
    }
    alarms = {
      paging         = var.alarms != "NONE"
      topic_arns     = var.alarm_topic_arns
      end_topic_arns = local.alarm_end_topic_arns
      age_seconds    = var.alarm_queue_age_seconds
      namespace      = local.metric_namespace
    }
  }
}
