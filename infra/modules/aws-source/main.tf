# One source of events: a queue that an AWS service fills, and a function that takes its messages into a topic. What a message
# becomes is said here and never in the message: the function gets this source, as JSON, in its environment.

locals {
  account   = var.gridpost.account
  partition = local.account.partition

  # What fills the queue. Exactly one is given.
  kinds = {
    event_bridge = var.event_bridge
    s3           = var.s3
    sns          = var.sns
    sqs          = var.sqs
  }
  given = [for kind, input in local.kinds : kind if input != null]
  kind  = try(local.given[0], "none")

  # As name_prefix has at most 20 characters and name 20, a function's name has at most 48.
  function_name = "${var.gridpost.name_prefix}-intake-${var.name}"

  # A queue of one's own is used as it is; every other source gets one.
  own_queue         = local.kind == "sqs"
  queue_name        = "${var.gridpost.name_prefix}-source-${var.name}"
  composed_arn      = "${var.gridpost.queues.arn_prefix}:${local.queue_name}"
  queue_arn         = local.own_queue ? var.sqs.queue_arn : local.composed_arn
  poison_queue_name = "${local.queue_name}-poison"
  poison_queue_arn  = "${var.gridpost.queues.arn_prefix}:${local.poison_queue_name}"
  poison_queue_url  = "${var.gridpost.queues.url_prefix}/${local.poison_queue_name}"

  # SQS moves messages from a queue only if it is the dead-letter queue of another one.
  redrive_advice = (
    local.own_queue
    ? "a redrive of SQS sends them back if the redrive policy of ${local.queue_arn} names the poison queue"
    : "a redrive of SQS sends them back"
  )

  # A message is out of the queue from when Lambda begins to fill a batch with it.
  visibility_seconds = var.gridpost.queues.visibility_seconds + var.batching_window_seconds

  # What is refused must fit into the poison queue: services send up to 256 KiB, a queue of one's own may take more.
  queue_bytes_max        = max(262144, var.gridpost.queues.message_bytes_max)
  poison_queue_bytes_max = max(local.queue_bytes_max, try(coalesce(var.sqs.message_bytes_max, 0), 0))

  # A bus may be given by its ARN. A rule's ARN has the bus' name, and not that of the default bus.
  bus_name  = replace(try(var.event_bridge.bus_name, "default"), "/^arn:[^/]*:event-bus[/]/", "")
  rule_path = local.bus_name == "default" ? local.queue_name : "${local.bus_name}/${local.queue_name}"
  rule_arn  = "arn:${local.partition}:events:${local.account.region}:${local.account.id}:rule/${local.rule_path}"

  # Who may send, and what on whose behalf. A bucket's ARN has no account in it.
  senders = {
    event_bridge = { service = "events.amazonaws.com", arn = local.rule_arn, account = null }
    s3           = { service = "s3.amazonaws.com", arn = "arn:${local.partition}:s3:::${try(var.s3.bucket, "")}", account = try(coalesce(var.s3.bucket_account, local.account.id), null) }
    sns          = { service = "sns.amazonaws.com", arn = try(var.sns.topic_arn, ""), account = null }
  }
  sender = lookup(local.senders, local.kind, null)

  send_statements = {
    for queue, arn in { events = local.composed_arn, poison = local.poison_queue_arn } : queue => [
      for sender in local.sender[*] : {
        Sid       = "TakeFromSource"
        Effect    = "Allow"
        Principal = { Service = sender.service }
        Action    = "sqs:SendMessage"
        Resource  = arn
        Condition = merge(
          { ArnEquals = { "aws:SourceArn" = sender.arn } },
          sender.account == null ? {} : { StringEquals = { "aws:SourceAccount" = sender.account } },
        )
      }
    ]
  }
  deny_statements = {
    for queue, arn in { events = local.composed_arn, poison = local.poison_queue_arn } : queue => {
      Sid                      = "DenyPlainHttp"
      Effect                   = "Deny"
      Principal                = "*"
      Action                   = "sqs:*"
      Resource                 = arn
      Condition                = { Bool = { "aws:SecureTransport" = "false" } }
    }
  }

  # What every source may do, narrowed to the topic of this one.
  shared_statements = [
    for statement in var.gridpost.function.statements : merge(
      statement,
      try(statement.leading_keys, null) == null ? {} : { leading_keys = ["TOPIC#${var.topic}"] },
    )
  ]

  sns_type = "com.amazonaws.sns.Notification"
  source = {
    name     = var.name
    topic    = var.topic
    queueArn = local.queue_arn
    source   = local.kind == "sns" ? var.sns.topic_arn : local.queue_arn
    eventType = coalesce(
      var.event_type,
      local.kind == "sns" || local.envelope == "SNS" ? local.sns_type : "com.amazonaws.sqs.message",
    )
    envelope = local.envelope
    carries  = local.carries
    content  = var.content
    blobs    = var.blobs
  }
  envelope = (
    local.kind == "sns" ? (try(var.sns.raw, false) ? "NONE" : "SNS")
    : local.kind == "sqs" ? var.sqs.envelope
    : "NONE"
  )
  carries = (
    local.kind == "event_bridge" ? "EVENT_BRIDGE"
    : local.kind == "s3" ? "S3"
    : try(coalesce(try(var.sns.carries, null), try(var.sqs.carries, null)), "MESSAGES")
  )
}

# Messages that can't become events of the topic, and those that the service could not put into the queue. They are kept as they
# came for 14 days; a redrive of SQS sends them back.
resource "aws_sqs_queue" "poison" {
  name                      = local.poison_queue_name
  tags                      = var.gridpost.tags
  message_retention_seconds = var.gridpost.queues.retention_seconds
  max_message_size          = local.poison_queue_bytes_max
  sqs_managed_sse_enabled   = var.gridpost.queues.kms_key_arn == null ? true : null
  kms_master_key_id         = var.gridpost.queues.kms_key_arn

  # S3 has no dead-letter queue.
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat([local.deny_statements.poison], local.kind == "s3" ? [] : local.send_statements.poison)
  })

  lifecycle {
    precondition {
      condition     = length(local.given) == 1
      error_message = "Give exactly one of event_bridge, s3, sns and sqs, got ${length(local.given) == 0 ? "none" : join(", ", local.given)}."
    }

    precondition {
      condition     = !var.blobs || contains(["EVENT_BRIDGE", "S3"], local.carries)
      error_message = "blobs = true is for events about objects of S3: for s3, for event_bridge, and for sns and sqs with carries S3 or EVENT_BRIDGE."
    }

    postcondition {
      condition     = coalesce(self.url, local.poison_queue_url) == local.poison_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the function was told ${local.poison_queue_url}."
    }
  }
}

resource "aws_sqs_queue" "this" {
  count = local.own_queue ? 0 : 1

  name                       = local.queue_name
  tags                       = var.gridpost.tags
  visibility_timeout_seconds = local.visibility_seconds
  message_retention_seconds  = var.gridpost.queues.retention_seconds
  max_message_size           = local.queue_bytes_max
  sqs_managed_sse_enabled    = var.gridpost.queues.kms_key_arn == null ? true : null
  kms_master_key_id          = var.gridpost.queues.kms_key_arn

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat([local.deny_statements.events], local.send_statements.events)
  })

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.poison.arn
    maxReceiveCount     = var.gridpost.queues.receives_max
  })
}

module "intake" {
  source = "../function"

  name           = local.function_name
  settings       = var.gridpost.function.settings
  description    = "Gridpost: takes events of the source ${var.name} into the topic ${var.topic}"
  program        = merge(var.gridpost.function.program, { memory_mb = coalesce(var.memory_mb, var.gridpost.function.program.memory_mb) })
  log_group_name = var.gridpost.function.log_group_name

  environment = merge(var.gridpost.function.environment, {
    GRIDPOST_SOURCE           = jsonencode(local.source)
    GRIDPOST_POISON_QUEUE_URL = local.poison_queue_url
  })

  statements = concat(
    [
      {
        sid       = "ConsumeSource"
        actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        resources = [local.queue_arn]
      },
      {
        sid       = "KeepRefusedMessages"
        actions   = ["sqs:SendMessage"]
        resources = [local.poison_queue_arn]
      },
    ],
    local.shared_statements,
    [
      for arn in [try(var.sqs.kms_key_arn, null)] : {
        sid         = "UseKeyOfOwnQueue"
        actions     = ["kms:Decrypt"]
        resources   = [arn]
        via_service = "sqs.${local.account.region}.${local.account.dns_suffix}"
      } if arn != null
    ],
  )
}

resource "aws_lambda_event_source_mapping" "this" {
  event_source_arn                   = local.own_queue ? local.queue_arn : aws_sqs_queue.this[0].arn
  tags                               = var.gridpost.tags
  function_name                      = module.intake.arn
  batch_size                         = 10
  maximum_batching_window_in_seconds = var.batching_window_seconds
  function_response_types            = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = var.concurrency
  }
}

resource "aws_cloudwatch_event_rule" "this" {
  count = var.event_bridge == null ? 0 : 1

  name           = local.queue_name
  description    = "Gridpost: events for the topic ${var.topic}"
  event_bus_name = var.event_bridge.bus_name
  event_pattern  = var.event_bridge.event_pattern
  tags           = var.gridpost.tags
}

resource "aws_cloudwatch_event_target" "this" {
  count = var.event_bridge == null ? 0 : 1

  rule           = aws_cloudwatch_event_rule.this[0].name
  event_bus_name = var.event_bridge.bus_name
  target_id      = "gridpost"
  arn            = aws_sqs_queue.this[0].arn

  # What EventBridge could not send for 24 hours.
  dead_letter_config {
    arn = aws_sqs_queue.poison.arn
  }
}

resource "aws_s3_bucket_notification" "this" {
  count = try(var.s3.notification, false) ? 1 : 0

  bucket = var.s3.bucket

  queue {
    id            = local.queue_name
    queue_arn     = aws_sqs_queue.this[0].arn
    events        = var.s3.events
    filter_prefix = var.s3.prefix
    filter_suffix = var.s3.suffix
  }
}

resource "aws_sns_topic_subscription" "this" {
  count = var.sns == null ? 0 : 1

  topic_arn            = var.sns.topic_arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.this[0].arn
  raw_message_delivery = var.sns.raw
  filter_policy        = var.sns.filter_policy
  filter_policy_scope  = var.sns.filter_policy == null ? null : var.sns.filter_policy_scope
  redrive_policy       = jsonencode({ deadLetterTargetArn = aws_sqs_queue.poison.arn })
}

resource "aws_cloudwatch_metric_alarm" "late" {
  count = var.gridpost.alarms.paging ? 1 : 0

  alarm_name          = "${local.queue_name}-late"
  alarm_description   = "Messages of the source ${var.name} wait longer than ${var.gridpost.alarms.age_seconds} s to be taken into the topic ${var.topic}. Look at Errors, Throttles and logs of ${local.function_name} (a line 'comes back' names what it could not reach), at the account's Lambda concurrency, and at the module's concurrency. Nothing is lost for as long as the queue keeps messages."
  tags                = var.gridpost.tags
  alarm_actions       = var.gridpost.alarms.topic_arns
  ok_actions          = var.gridpost.alarms.end_topic_arns
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = element(split(":", local.queue_arn), 5) }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.gridpost.alarms.age_seconds
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "poison" {
  count = var.gridpost.alarms.paging ? 1 : 0

  alarm_name          = "${local.queue_name}-poison-not-empty"
  alarm_description   = "Messages of the source ${var.name} could not become events of the topic ${var.topic}: they do not have the source's form, or the topic does not exist or refuses them. The lines 'was refused' of ${local.function_name} name ids and reasons. They are kept for 14 days in ${local.poison_queue_name}; when the cause is fixed, ${local.redrive_advice} (docs/aws-sources.md)."
  tags                = var.gridpost.tags
  alarm_actions       = var.gridpost.alarms.topic_arns
  ok_actions          = var.gridpost.alarms.end_topic_arns
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = local.poison_queue_name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
}

# SQS leaves messages that it has handed over three times out of the age that the first alarm looks at.
resource "aws_cloudwatch_metric_alarm" "kept" {
  count = var.gridpost.alarms.paging ? 1 : 0

  alarm_name          = "${local.queue_name}-kept"
  alarm_description   = "Messages of the source ${var.name} have come back for 15 minutes. The lines 'comes back' of ${local.function_name} name ids and reasons: the topic's tables or a queue can't be reached, or the poison queue does not take a message, for example because it is larger than that queue's maximum. They come back every minute, and the queue drops them when its retention ends."
  tags                = var.gridpost.tags
  alarm_actions       = var.gridpost.alarms.topic_arns
  ok_actions          = var.gridpost.alarms.end_topic_arns
  namespace           = var.gridpost.alarms.namespace
  metric_name         = "SourceKeptCount"
  dimensions          = { Source = var.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
}
