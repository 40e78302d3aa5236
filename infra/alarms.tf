# What a human must look at. Each description says what to do; docs/operating.md says more. alarms PAGES makes those that tell of
# events that are refused, late or lost, whatever the cause; the others tell of causes, or of what can wait until the morning.
#
# An alarm costs 0.10 dollars a month for each metric it looks at: those of PAGES look at seven, and at one more with
# publish_front_door FUNCTION_URL.

locals {
  paging     = var.alarms != "NONE" ? 1 : 0
  all_alarms = var.alarms == "ALL" ? 1 : 0

  # The oldest message that is still normal, by queue, in seconds. Not longer than must be, because SQS leaves messages that
  # were received three times out of this metric.
  normal_ages = {
    dispatch = { queue = local.dispatch_queue_name, seconds = var.alarm_queue_age_seconds }
    # The largest publish takes about five minutes.
    fan_out = { queue = local.fan_out_queue_name, seconds = 900 }
    # Every dead letter waits for the delay and may wait for a window; five minutes more is not normal.
    dead_letter = { queue = local.dead_letter_queue_name, seconds = var.dead_letter_delay_seconds + var.dead_letter_window_seconds + 300 }
  }

  # Namespace, name, dimension and its value of metrics that are added up.
  failed_runs        = [for name in ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage"] : ["AWS/Lambda", "Errors", "FunctionName", "${var.name_prefix}-${name}"]]
  refused_runs       = [for name in keys(local.functions) : ["AWS/Lambda", "Throttles", "FunctionName", "${var.name_prefix}-${name}"]]
  throttled_requests = [for of in setproduct(["ReadThrottleEvents", "WriteThrottleEvents"], [local.config_table_name, local.state_table_name]) : ["AWS/DynamoDB", of[0], "TableName", of[1]]]

  # CloudWatch takes ten metrics for an alarm.
  retry_queues_by_ten = chunklist(local.retry_queue_names, 10)
}

# What publishers feel: ingest fails, is throttled or can't read its configuration, or API Gateway can't reach it.
resource "aws_cloudwatch_metric_alarm" "publish_refused" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-publish-refused"
  alarm_description   = "Publishes are answered with 5xx: events are not accepted, and publishers must send them again. Look at the logs of ${var.name_prefix}-ingest (a 503 names what it could not reach), at its Errors and Throttles, and at the account's Lambda concurrency, which deliveries may use up: ingest_reserved_concurrency keeps some for publishes."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = local.publish_by_api ? "AWS/ApiGateway" : "AWS/Lambda"
  metric_name         = local.publish_by_api ? "5xx" : "Url5xxCount"
  dimensions          = { (local.publish_by_api ? "ApiId" : "FunctionName") = local.publish_by_api ? join("", aws_apigatewayv2_api.publish[*].id) : "${var.name_prefix}-ingest" }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.alarm_failed_publishes
  treat_missing_data  = "notBreaching"
}

# Behind API Gateway a run that Lambda refuses is a 5xx, which the alarm above counts. By the function URL Lambda answers it
# itself, with 429, which no count of 5xx has.
resource "aws_cloudwatch_metric_alarm" "publish_throttled" {
  count = local.publish_by_api ? 0 : local.paging

  alarm_name          = "${var.name_prefix}-publish-throttled"
  alarm_description   = "Lambda answers publishes at the function URL with 429: events are not accepted, and publishers must send them again. The account's Lambda concurrency is used up, which deliveries may do (ingest_reserved_concurrency keeps some for publishes), or ingest_reserved_concurrency is. Ask for a higher quota, raise ingest_reserved_concurrency, or lower first_attempt_concurrency and retry_concurrency."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = "${var.name_prefix}-ingest" }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.alarm_failed_publishes
  treat_missing_data  = "notBreaching"
}

# Errors and throttles of what reads these queues show here, whatever their cause.
resource "aws_cloudwatch_metric_alarm" "late" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-late"
  alarm_description   = "Something waits longer than is normal: first attempts (${local.dispatch_queue_name}, ${var.alarm_queue_age_seconds} s), publishes to be expanded (${local.fan_out_queue_name}), or dead letters to be written (${local.dead_letter_queue_name}; after ${var.dead_letter_give_up_seconds} s they are dropped). The value is the age of the oldest message by what is normal there. Look at Errors, Throttles and logs of the function that reads that queue (dispatch, expand, dead-letter), at the account's Lambda concurrency and first_attempt_concurrency, and at slow endpoints. Nothing of the first two is lost, but time-to-live counts from the publish."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "late"
    expression  = "MAX([${join(", ", [for name, normal in local.normal_ages : "FILL(${name}, 0) / ${normal.seconds}"])}])"
    label       = "Oldest message, in times of what is normal"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.normal_ages

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateAgeOfOldestMessage"
        dimensions  = { QueueName = metric_query.value.queue }
        stat        = "Maximum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "poison" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-poison-not-empty"
  alarm_description   = "Gridpost could not read a record, or not settle it in ${local.receives_max} receives: a bug, or a permission taken away. gridpost poison list says what they are and where they were; the logs of that function name their message ids and the cause. When it is repaired, gridpost poison resend sends them back. They are kept for 14 days from their first enqueue."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
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

resource "aws_cloudwatch_metric_alarm" "dropped" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-events-dropped"
  alarm_description   = "Events ended undelivered and are gone. DroppedEventCount by DropReason says why, the log lines 'events dropped' whose, with the deliveries and event ids. DeadLetterDestinationUnavailable and DeadLetterDestinationNotFound: repair the bucket or its policy at once. PayloadMissing: objects are removed from the payload bucket before their time. Other reasons: the event subscription has no dead-letter destination; give it one."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = local.metric_namespace
  metric_name         = "DroppedEventCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
}

# Lambda reports Errors, if only 0, for every run: no data means that wake did not run, which is as bad as failing. That is told by
# the state without data rather than by taking it for a failure: a new alarm begins in that state, and tells nothing before wake
# has run for the first time.
resource "aws_cloudwatch_metric_alarm" "wake" {
  count = local.paging

  alarm_name                = "${var.name_prefix}-wake-not-running"
  alarm_description         = "wake has failed, or not run at all, for five minutes: parked deliveries do not come back when due. Look at the logs of ${var.name_prefix}-wake, then at its schedule in EventBridge Scheduler and at the account's Lambda concurrency. Nothing is lost while it stands."
  tags                      = local.tags
  alarm_actions             = var.alarm_topic_arns
  ok_actions                = var.alarm_topic_arns
  namespace                 = "AWS/Lambda"
  metric_name               = "Errors"
  dimensions                = { FunctionName = "${var.name_prefix}-wake" }
  statistic                 = "Sum"
  period                    = 60
  evaluation_periods        = 5
  comparison_operator       = "GreaterThanThreshold"
  threshold                 = 0
  treat_missing_data        = "missing"
  insufficient_data_actions = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-dead-letters"
  alarm_description   = "Events ended undelivered and were written as dead letters. DeadLetteredCount by DeadLetterReason says why; the records in the bucket say whose, and what the endpoints answered. gridpost subscription health says what is wrong with an endpoint. Repair it, then send the dead letters again. Where dead letters are everyday, raise alarm_dead_letters."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = local.metric_namespace
  metric_name         = "DeadLetteredCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_dead_letters
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "failed_attempts" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-failed-attempts"
  alarm_description   = "Of what is attempted, much fails, for a quarter of an hour. DeliveryAttemptFailCount by Error says what endpoints answer; gridpost tail --failed shows whose they are, gridpost subscription health what it does to an event subscription. SocketError and ResolutionError of all at once: this deployment's own network or DNS. Failing deliveries are tried again by their retry policy; act before their time-to-live ends."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_failed_attempts_percent
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "percent"
    expression  = "IF(failed + FILL(delivered, 0) >= 20, 100 * failed / (failed + FILL(delivered, 0)), 0)"
    label       = "Failed attempts, percent"
    return_data = true
  }

  metric_query {
    id = "failed"

    metric {
      namespace   = local.metric_namespace
      metric_name = "DeliveryAttemptFailCount"
      stat        = "Sum"
      period      = 300
    }
  }

  metric_query {
    id = "delivered"

    metric {
      namespace   = local.metric_namespace
      metric_name = "DeliverySuccessCount"
      stat        = "Sum"
      period      = 300
    }
  }
}

# SQS holds about 120,000 in flight per queue; at that wall long polling returns nothing more, without an error. From
# retry_in_flight_limit on dispatch parks long waits, and from 90,000 on, whatever that limit is, all of over three minutes: what
# still grows past 100,000, parking does not hold.
resource "aws_cloudwatch_metric_alarm" "retry_in_flight" {
  count = local.all_alarms * var.retry_queue_count

  alarm_name          = "${local.retry_queue_names[count.index]}-in-flight"
  alarm_description   = "At 120,000 hidden messages this queue stops giving out any, and parking long waits does not keep it below: too many deliveries are in waits of less than three minutes, or dispatch can't write the state table (its logs). Ask AWS for a higher quota; lower retry_in_flight_limit, so that long waits leave room (0 parks all of them). More retry queues help only subscriptions that move to them."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesNotVisible"
  dimensions          = { QueueName = local.retry_queue_names[count.index] }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 100000
  treat_missing_data  = "notBreaching"
}

# The age of the oldest message tells nothing of a retry queue: hidden messages, which wait as they should, count too. How many are
# due and not taken does.
resource "aws_cloudwatch_metric_alarm" "retry_late" {
  count = local.all_alarms * length(local.retry_queues_by_ten)

  alarm_name          = count.index == 0 ? "${var.name_prefix}-retry-late" : "${var.name_prefix}-retry-late-${count.index}"
  alarm_description   = "For a quarter of an hour over ${var.alarm_due_retries} messages that are due have stood in a retry queue: retries come late by the time it takes to work them off. Look at Errors, Throttles and logs of ${var.name_prefix}-dispatch; raise retry_concurrency, or the account's Lambda concurrency. Nothing is lost, but time-to-live goes on."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_due_retries
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "most"
    expression  = "MAX([${join(", ", [for index, name in local.retry_queues_by_ten[count.index] : "FILL(due${index}, 0)"])}])"
    label       = "Messages that are due, at the least, in the worst queue"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.retry_queues_by_ten[count.index]

    content {
      id = "due${metric_query.key}"

      metric {
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        dimensions  = { QueueName = metric_query.value }
        stat        = "Minimum"
        period      = 300
      }
    }
  }
}

# The functions' metrics have a form without dimensions, because alarms can't search.
resource "aws_cloudwatch_metric_alarm" "stuck_parked" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-parked-stuck"
  alarm_description   = "Parked deliveries could not be sent back to a retry queue when they were due; each is tried again after 5 minutes to an hour, and nothing is lost. The log lines 'can't be sent back' of ${var.name_prefix}-wake say which and why: a message over queue_message_bytes_max that can't be read, a retry queue or its key that refuses. gridpost parked list shows them with a problem; gridpost parked release sends them once the cause is gone."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = local.metric_namespace
  metric_name         = "StuckParkedCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "redrive_age" {
  count = local.all_alarms

  alarm_name          = "${local.redrive_queue_name}-age"
  alarm_description   = "A redrive job waits, and nothing works at it: look at Errors, Throttles and logs of ${var.name_prefix}-redrive. The job goes on from where it was noted; its message lives for 14 days."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.redrive_queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 900
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "function_errors" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-function-errors"
  alarm_description   = "Runs of ingest, expand, dispatch, dead-letter, redrive or manage have failed: a bug, too little memory, or a timeout. Their Errors say which, its logs why. What a failed run was at is done again; a publish was answered with 5xx."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "all"
    expression  = "SUM([${join(", ", [for index in range(length(local.failed_runs)) : "FILL(of${index}, 0)"])}])"
    label       = "Failed runs"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.failed_runs

    content {
      id = "of${metric_query.key}"

      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = { (metric_query.value[2]) = metric_query.value[3] }
        stat        = "Sum"
        period      = 300
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "function_throttles" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-function-throttles"
  alarm_description   = "Lambda has refused runs of functions for a quarter of an hour: the account's concurrency is used up, by this deployment or by others beside it, or ingest_reserved_concurrency is. Their Throttles say which. Ask for a higher quota, or lower first_attempt_concurrency and retry_concurrency."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "all"
    expression  = "SUM([${join(", ", [for index in range(length(local.refused_runs)) : "FILL(of${index}, 0)"])}])"
    label       = "Refused runs"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.refused_runs

    content {
      id = "of${metric_query.key}"

      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = { (metric_query.value[2]) = metric_query.value[3] }
        stat        = "Sum"
        period      = 300
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "table_throttles" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-table-throttles"
  alarm_description   = "DynamoDB has throttled reads or writes: one key takes 1,000 writes and 3,000 reads in a second, or the account's quota for on-demand tables is reached. Deliveries that can't write their state wait and come back."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "all"
    expression  = "SUM([${join(", ", [for index in range(length(local.throttled_requests)) : "FILL(of${index}, 0)"])}])"
    label       = "Throttled requests"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.throttled_requests

    content {
      id = "of${metric_query.key}"

      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = { (metric_query.value[2]) = metric_query.value[3] }
        stat        = "Sum"
        period      = 300
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "manage_failing" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-manage-failing"
  alarm_description   = "The manage API answers with 5xx: operators and Terraform can't change configuration. Deliveries go on. Look at the logs of ${var.name_prefix}-manage."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = "AWS/ApiGateway"
  metric_name         = "5xx"
  dimensions          = { ApiId = aws_apigatewayv2_api.manage.id }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 3
  treat_missing_data  = "notBreaching"
}
