# wake: once a minute, sends parked deliveries that are due soon back to their retry queues. It is idempotent, so an overlap or a
# missed minute does no harm.

module "wake" {
  source = "./modules/function"

  name        = "${var.name_prefix}-wake"
  settings    = local.function_settings
  description = "Gridpost: sends parked deliveries back to the retry queues when due"
  program     = local.function_programs["wake"]

  environment = merge(local.common_environment, {
    GRIDPOST_STATE_TABLE              = local.state_table_name
    GRIDPOST_CONFIG_TABLE             = local.config_table_name
    GRIDPOST_RETRY_QUEUE_URLS         = join(",", local.retry_queue_urls)
    GRIDPOST_RETRY_QUEUES_SENT_TO     = tostring(coalesce(var.retry_queues_sent_to, var.retry_queue_count))
    GRIDPOST_PAYLOAD_BUCKET           = local.payload_bucket_name
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX  = tostring(var.queue_message_bytes_max)
    GRIDPOST_DISPATCH_CONFIG_CACHE_MS = tostring(var.dispatch_config_cache_ms)
    GRIDPOST_CONFIG_STALE_SECONDS     = tostring(var.config_stale_seconds)
  })

  statements = concat([
    {
      sid       = "TakeParkedDeliveries"
      actions   = ["dynamodb:Query", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"]
      resources = [local.state_table_arn]
    },
    {
      # Whether a paused event subscription still is; nothing else is read there.
      sid          = "ReadPauses"
      actions      = ["dynamodb:GetItem"]
      resources    = [local.config_table_arn]
      leading_keys = ["TOPIC#*"]
    },
    {
      sid       = "EnqueueRetries"
      actions   = ["sqs:SendMessage"]
      resources = local.retry_queue_arns
    },
    {
      # For the events of a message that exceeds queue_message_bytes_max because that was lowered.
      sid       = "StoreLargeEvents"
      actions   = ["s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*"]
    },
  ], local.key_statements)
}

# The scheduler invokes asynchronously, and Lambda would retry that twice, for up to six hours. The next minute's run replaces
# these retries.
resource "aws_lambda_function_event_invoke_config" "wake" {
  function_name                = module.wake.name
  qualifier                    = module.wake.qualifier
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 60
}

# Role names are global in an account: the region tells two deployments apart.
resource "aws_iam_role" "wake_schedule" {
  name                 = "${var.name_prefix}-wake-schedule-${local.region}"
  tags                 = local.tags
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "Lets EventBridge Scheduler invoke ${var.name_prefix}-wake, and nothing else"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "SchedulerOfThisAccount"
      Effect    = "Allow"
      Principal = { Service = "scheduler.amazonaws.com" }
      Action    = "sts:AssumeRole"
      # The schedule's group: AWS says that it must not be the ARN of a schedule.
      Condition = {
        StringEquals = {
          "aws:SourceAccount" = local.account_id
          "aws:SourceArn"     = "arn:${local.partition}:scheduler:${local.region}:${local.account_id}:schedule-group/default"
        }
      }
    }]
  })
}

resource "aws_iam_role_policy" "wake_schedule" {
  name = "invoke-wake"
  role = aws_iam_role.wake_schedule.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "InvokeWake"
      Effect   = "Allow"
      Action   = "lambda:InvokeFunction"
      Resource = "arn:${local.partition}:lambda:${local.region}:${local.account_id}:function:${var.name_prefix}-wake${local.live}"
    }]
  })
}

resource "aws_scheduler_schedule" "wake" {
  # checkov:skip=CKV_AWS_297:the schedule carries no data worth a customer key
  name                = "${var.name_prefix}-wake"
  description         = "Runs wake: parked deliveries are looked for in buckets of a minute"
  schedule_expression = "rate(1 minute)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = module.wake.arn
    role_arn = aws_iam_role.wake_schedule.arn
    input    = jsonencode({})

    # The next minute is the retry.
    retry_policy {
      maximum_event_age_in_seconds = 60
      maximum_retry_attempts       = 0
    }
  }

  # wake must not run before the table that it reads and the queues that it sends to exist.
  depends_on = [aws_iam_role_policy.wake_schedule, aws_dynamodb_table.state, aws_sqs_queue.retry]
}
