# dispatch: attempts deliveries and carries out what follows. It is the only function that calls strangers' endpoints, so its role
# may do as little as possible: use its own queues, items and payloads, and send to the AWS resources that were named. It can't
# reach dead letters or change configuration.

locals {
  # Clients of five services make the program larger and slower to start. A deployment with webhooks only does not need them.
  dispatch_program = length(var.resource_destinations) == 0 ? "dispatch" : "dispatch-resources"

  # Permissions to deliver to an AWS resource, by the service in its ARN, and to check it before an event subscription is stored.
  # A function is checked with a dry run (DryRun).
  resource_actions = {
    events  = { sid = "DeliverToEventBuses", actions = ["events:PutEvents", "events:DescribeEventBus"] }
    kinesis = { sid = "DeliverToStreams", actions = ["kinesis:PutRecords", "kinesis:DescribeStreamSummary"] }
    lambda  = { sid = "DeliverToFunctions", actions = ["lambda:InvokeFunction"] }
    # PublishBatch needs sns:Publish; an emulator may require a permission called PublishBatch.
    sns = { sid = "DeliverToTopics", actions = ["sns:Publish", "sns:GetTopicAttributes"] }
    sqs = { sid = "DeliverToQueues", actions = ["sqs:SendMessage", "sqs:GetQueueAttributes"] }
  }
  resource_statements = [
    for service, grant in local.resource_actions : {
      sid     = grant.sid
      actions = concat(grant.actions, local.emulated && service == "sns" ? ["sns:PublishBatch"] : [])
      resources = concat(
        [for arn in var.resource_destinations : arn if split(":", arn)[2] == service],
        # An emulator mistakes the bus in the request for a rule.
        [for arn in var.resource_destinations : replace(arn, ":event-bus/", ":rule/default/") if local.emulated && service == "events" && split(":", arn)[2] == service],
      )
    } if anytrue([for arn in var.resource_destinations : split(":", arn)[2] == service])
  ]
}

locals {
  # What full queues may run at the same time.
  concurrencies = {
    first_attempt_concurrency                   = var.first_attempt_concurrency
    "retry_queue_count times retry_concurrency" = var.retry_queue_count * var.retry_concurrency
    slow_concurrency                            = var.slow_concurrency
    dead_letter_concurrency                     = var.dead_letter_concurrency
    redrive_concurrency                         = var.redrive_concurrency
    fan_out_concurrency                         = var.fan_out_concurrency
    ingest_reserved_concurrency                 = coalesce(var.ingest_reserved_concurrency, 0)
  }
  concurrency_sum = sum(values(local.concurrencies))

  # Reserved from the queues: one invocation of ingest (or manage), and one of wake.
  concurrency_left  = 2
  concurrency_terms = join(", ", [for name, runs in local.concurrencies : "${name} ${runs}"])
}

module "dispatch" {
  source = "./modules/function"

  name        = "${var.name_prefix}-dispatch"
  settings    = local.function_settings
  description = "Gridpost: attempts deliveries, retries them, ends them"
  program     = local.function_programs["dispatch"]
  vpc         = var.vpc

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE              = local.config_table_name
    GRIDPOST_STATE_TABLE               = local.state_table_name
    GRIDPOST_DISPATCH_QUEUE_URL        = local.dispatch_queue_url
    GRIDPOST_RETRY_QUEUE_URLS          = join(",", local.retry_queue_urls)
    GRIDPOST_RETRY_QUEUES_SENT_TO      = tostring(coalesce(var.retry_queues_sent_to, var.retry_queue_count))
    GRIDPOST_SLOW_QUEUE_URL            = local.slow_queue_url
    GRIDPOST_SLOW_QUEUE_SENT_TO        = tostring(var.slow_concurrency > 0)
    GRIDPOST_DEAD_LETTER_QUEUE_URL     = local.dead_letter_queue_url
    GRIDPOST_POISON_QUEUE_URL          = local.poison_queue_url
    GRIDPOST_PAYLOAD_BUCKET            = local.payload_bucket_name
    GRIDPOST_CONFIG_CACHE_MS           = tostring(var.dispatch_config_cache_ms)
    GRIDPOST_CONFIG_STALE_SECONDS      = tostring(var.config_stale_seconds)
    GRIDPOST_DEAD_LETTER_DELAY_SECONDS = tostring(var.dead_letter_delay_seconds)
    GRIDPOST_ENDPOINT_ALLOWED_NETWORKS = join(",", var.endpoint_allowed_networks)
    GRIDPOST_ENDPOINT_ALLOWED_PORTS    = join(",", var.endpoint_allowed_ports)
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX   = tostring(var.queue_message_bytes_max)
    GRIDPOST_RETRY_IN_FLIGHT_LIMIT     = tostring(var.retry_in_flight_limit)
    GRIDPOST_SLOW_AFTER_MS             = tostring(var.slow_after_ms)
    GRIDPOST_FIRST_ATTEMPT_LISTENERS   = tostring(ceil(var.first_attempt_concurrency * var.late_response_share))
    GRIDPOST_RETRY_LISTENERS           = tostring(ceil(var.retry_concurrency * var.late_response_share))
    GRIDPOST_SLOW_LISTENERS            = tostring(floor(var.slow_concurrency * var.late_response_share))
    GRIDPOST_PROBATION_SECONDS         = jsonencode(var.probation_seconds)
    GRIDPOST_VALIDATION_ORIGIN         = var.validation_origin
    GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS   = tostring(var.log_successful_attempts)
    GRIDPOST_FAILED_RESPONSE_BYTES     = tostring(var.failed_response_bytes)
    GRIDPOST_LATENCY_METRICS           = tostring(var.latency_metrics)
  }, local.endpoint_secret_environment, local.endpoint_identity_environment)

  statements = concat([
    {
      sid = "ConsumeAndHideDeliveries"
      actions = [
        "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility",
      ]
      resources = concat([local.dispatch_queue_arn], local.retry_queue_arns, [local.slow_queue_arn])
    },
    {
      sid       = "EnqueueRetriesAndEnds"
      actions   = ["sqs:SendMessage"]
      resources = concat(local.retry_queue_arns, [local.slow_queue_arn, local.dead_letter_queue_arn, local.poison_queue_arn])
    },
    {
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem", "dynamodb:Query"]
      resources = [local.config_table_arn]
      # Access keys are in separate items.
      leading_keys = ["TOPIC#*", "SECRETS#*"]
    },
    {
      sid       = "KeepState"
      actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
      resources = [local.state_table_arn]
    },
  ], local.payload_read_statements, local.resource_statements, local.endpoint_secret_statements, local.endpoint_identity_statements, local.key_statements)
}

# Limits for each queue, so that retries to failing endpoints never take capacity from first attempts, nor slow endpoints from the
# others' retries.
resource "aws_lambda_event_source_mapping" "dispatch" {
  event_source_arn = aws_sqs_queue.dispatch.arn
  tags             = local.tags
  function_name    = module.dispatch.arn
  batch_size       = 10

  # No batching window: a first attempt must not wait.
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.first_attempt_concurrency
  }

  lifecycle {
    # Beyond the quota Lambda throttles invocations: publishes get 503 while the queues are processed.
    precondition {
      condition     = local.concurrency_sum + local.concurrency_left <= var.account_concurrency
      error_message = "The queues may use ${local.concurrency_sum} concurrent runs together (${local.concurrency_terms}), and account_concurrency is ${var.account_concurrency}, of which at least ${local.concurrency_left} must be left for a publish and for wake: lower them, or have the quota raised and say so in account_concurrency."
    }

    precondition {
      condition     = var.ingest_reserved_concurrency == null || var.account_concurrency - coalesce(var.ingest_reserved_concurrency, 0) >= 100
      error_message = "Lambda leaves at least 100 of an account's concurrency unreserved: ingest_reserved_concurrency, ${coalesce(var.ingest_reserved_concurrency, 0)}, must be at most account_concurrency, ${var.account_concurrency}, less 100."
    }

    precondition {
      condition     = alltrue([for arn in var.resource_destinations : try(split(":", arn)[3], "") == local.region])
      error_message = "resource_destinations must be in the deployment's region, ${local.region}, got ${jsonencode(var.resource_destinations)}."
    }

    # CloudWatch and the services that encrypt refuse these in the middle of an apply.
    precondition {
      condition     = alltrue([for arn in var.alarm_topic_arns : split(":", arn)[3] == local.region])
      error_message = "alarm_topic_arns must be in the deployment's region, ${local.region}, got ${jsonencode(var.alarm_topic_arns)}."
    }

    precondition {
      condition     = alltrue([for arn in values(var.kms_key_arns) : arn == null || try(split(":", arn)[3], "") == local.region])
      error_message = "kms_key_arns must be in the deployment's region, ${local.region}, got ${jsonencode(var.kms_key_arns)}."
    }

    # IAM takes these, and the functions could not use them.
    precondition {
      condition     = alltrue([for arn in concat(var.kms_former_key_arns, var.dead_letter_bucket_key_arns) : try(split(":", arn)[3], "") == local.region])
      error_message = "kms_former_key_arns and dead_letter_bucket_key_arns must be in the deployment's region, ${local.region}, got ${jsonencode(concat(var.kms_former_key_arns, var.dead_letter_bucket_key_arns))}."
    }
  }
}

# No window here either: with one, Lambda waits up to 20 s for further messages where few come, however short the window is
# (Lambda developer guide, "Using Lambda with Amazon SQS"). Retries would come late by as much.
resource "aws_lambda_event_source_mapping" "retry" {
  count = var.retry_queue_count

  event_source_arn                   = aws_sqs_queue.retry[count.index].arn
  tags                               = local.tags
  function_name                      = module.dispatch.arn
  batch_size                         = 10
  maximum_batching_window_in_seconds = 0
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.retry_concurrency
  }
}

# Requests to slow endpoints share an invocation, which lasts as long as the slowest of them. These deliveries may wait for that.
resource "aws_lambda_event_source_mapping" "slow" {
  event_source_arn                   = aws_sqs_queue.slow.arn
  tags                               = merge(local.tags, { "gridpost:may-wait" = "slow endpoints" })
  function_name                      = module.dispatch.arn
  batch_size                         = var.slow_batch_size
  maximum_batching_window_in_seconds = var.slow_window_seconds
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    # Lambda's least: without slow_concurrency nothing is sent to the queue, and what it holds is taken out.
    maximum_concurrency = max(2, var.slow_concurrency)
  }

  lifecycle {
    precondition {
      condition     = var.slow_batch_size <= 10 || var.slow_window_seconds >= 1
      error_message = "slow_batch_size over 10 needs slow_window_seconds of at least 1 (a rule of Lambda), got ${var.slow_batch_size} and ${var.slow_window_seconds}."
    }
  }
}
