# Alarms for operators. Each description says what to do; docs/operating.md says more. alarms = PAGES creates those on events that
# are refused, late or lost, whatever the cause. The others are about causes, or about problems that can wait until the morning.
# An alarm costs 0.10 dollars a month for each metric that it watches: those of PAGES watch seven, and one more with
# publish_front_door FUNCTION_URL.

locals {
  paging     = var.alarms != "NONE" ? 1 : 0
  all_alarms = var.alarms == "ALL" ? 1 : 0

  # Highest normal age of the oldest message, by queue, in seconds. As low as possible, because this metric leaves out messages
  # that were received three times: it sees what is not received, and the alarm on kept messages sees what comes back.
  normal_ages = {
    dispatch = { queue = local.dispatch_queue_name, seconds = var.alarm_queue_age_seconds }
    # Every dead letter waits for the delay and may wait for a window; five minutes more is not normal.
    dead_letter = { queue = local.dead_letter_queue_name, seconds = var.dead_letter_delay_seconds + var.dead_letter_window_seconds + 300 }
  }

  # A dead letter that S3 refuses is hidden for 10 s, 60 s, and then for so long each time (functions/dead-letter); expand and
  # redrive keep their messages no longer than five minutes. Then Lambda may wait to fill a batch.
  longest_comeback_seconds = max(300, var.dead_letter_give_up_seconds / 500) + var.dead_letter_window_seconds

  # Metrics that are added up: namespace, name, dimension and its value.
  failed_runs        = [for name in ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage"] : ["AWS/Lambda", "Errors", "FunctionName", "${var.name_prefix}-${name}"]]
  refused_runs       = [for name in keys(local.functions) : ["AWS/Lambda", "Throttles", "FunctionName", "${var.name_prefix}-${name}"]]
  throttled_requests = [for of in setproduct(["ReadThrottleEvents", "WriteThrottleEvents"], [local.config_table_name, local.state_table_name]) : ["AWS/DynamoDB", of[0], "TableName", of[1]]]

  # CloudWatch allows ten metrics per alarm.
  retry_queues_by_ten = chunklist(local.retry_queue_names, 10)
}

# Failures that publishers see: ingest fails, is throttled or can't read its configuration, or API Gateway can't reach it.
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

# Behind API Gateway a throttled invocation is a 5xx, which the alarm above counts. At the function URL Lambda itself answers 429,
# which is not counted as 5xx.
resource "aws_cloudwatch_metric_alarm" "publish_throttled" {
  count = local.publish_by_api ? 0 : local.paging

  alarm_name          = "${var.name_prefix}-publish-throttled"
  alarm_description   = "Lambda answers publishes at the function URL with 429: events are not accepted, and publishers must send them again. Either deliveries or other functions have used up the account's Lambda concurrency (ingest_reserved_concurrency keeps some for publishes), or ingest has used up its ingest_reserved_concurrency. Ask for a higher quota, raise ingest_reserved_concurrency, or lower first_attempt_concurrency and retry_concurrency."
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

# Errors and throttles of the functions that read these queues show here, whatever their cause. What a function receives and
# gives back does not: the next alarm is for that.
resource "aws_cloudwatch_metric_alarm" "late" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-late"
  alarm_description   = "Something has not been received for longer than is normal: first attempts (${local.dispatch_queue_name}, ${var.alarm_queue_age_seconds} s) or dead letters to be written (${local.dead_letter_queue_name}; after ${var.dead_letter_give_up_seconds} s they are dropped). The value is the age of the oldest message divided by the highest normal age for that queue. Look at Errors, Throttles and logs of the function that reads that queue (dispatch, dead-letter), at the account's Lambda concurrency and first_attempt_concurrency, and at slow endpoints. First attempts are not lost, but time-to-live counts from the publish. What was received three times does not show here: ${var.name_prefix}-kept tells of it."
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

# Single failures happen. Three intervals in a row would miss a lone message: it may come back less often than every five minutes.
resource "aws_cloudwatch_metric_alarm" "kept" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-kept"
  alarm_description   = "Messages come back again and again, because dead-letter can't write dead letters (after ${var.dead_letter_give_up_seconds} s they are dropped), expand can't expand publishes, or redrive can't go on. KeptCount counts them, and ${var.name_prefix}-late does not see them. Look at the warnings and errors in the logs of ${var.name_prefix}-dead-letter, ${var.name_prefix}-expand and ${var.name_prefix}-redrive: a bucket or its policy, a KMS key, a queue or a table refuses. Repair it soon; what has not been dropped then goes on by itself."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = local.metric_namespace
  metric_name         = "KeptCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3 + ceil(2 * local.longest_comeback_seconds / 300)
  datapoints_to_alarm = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "poison" {
  count = local.paging

  alarm_name          = "${var.name_prefix}-poison-not-empty"
  alarm_description   = "Gridpost could not read a message, or could not settle it in ${local.receives_max} receives: a bug, or a missing permission. gridpost poison list shows the messages and the queues they came from; the logs of that queue's function name the message ids and the cause. When it is fixed, gridpost poison resend sends them back. They are kept for 14 days from their first enqueue."
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
  alarm_description   = "Events ended undelivered and are gone. DroppedEventCount by DropReason says why; the log lines 'events dropped' name the event subscriptions, deliveries and event ids. DeadLetterDestinationUnavailable and DeadLetterDestinationNotFound: repair the bucket or its policy at once. PayloadMissing: something removes objects from the payload bucket too early. Other reasons: the event subscription has no dead-letter destination; give it one."
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

# Lambda reports Errors for every invocation, even if it is 0. So no data means that wake did not run, which is as bad as a
# failure. The INSUFFICIENT_DATA state notifies, and missing data does not count as breaching: a new alarm begins in that state,
# and must not notify before wake has run for the first time.
resource "aws_cloudwatch_metric_alarm" "wake" {
  count = local.paging

  alarm_name                = "${var.name_prefix}-wake-not-running"
  alarm_description         = "wake has failed or has not run for five minutes: parked deliveries do not come back when due. Look at the logs of ${var.name_prefix}-wake, then at its schedule in EventBridge Scheduler and at the account's Lambda concurrency. Nothing is lost meanwhile."
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
  alarm_description   = "Events ended undelivered and were written as dead letters. DeadLetteredCount by DeadLetterReason says why; the records in the bucket name the event subscriptions and the endpoints' answers. gridpost subscription health says what is wrong with an endpoint. Repair it, then redrive the dead letters. If dead letters are normal for you, raise alarm_dead_letters."
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
  alarm_description   = "Many attempts have failed for a quarter of an hour. DeliveryAttemptFailCount by Error says what endpoints answer; gridpost tail --failed shows which event subscriptions fail, and gridpost subscription health shows the effect on one. If all endpoints fail with SocketError or ResolutionError, look at this deployment's own network or DNS. Failing deliveries are retried by their retry policy; act before their time-to-live ends."
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

# SQS allows about 120,000 messages in flight per queue; at that limit long polling returns nothing, without an error. From
# retry_in_flight_limit on, dispatch parks long waits, and from 90,000 on, whatever that limit is, all waits of over three
# minutes. If the count still grows past 100,000, parking does not keep up.
resource "aws_cloudwatch_metric_alarm" "retry_in_flight" {
  count = local.all_alarms * var.retry_queue_count

  alarm_name          = "${local.retry_queue_names[count.index]}-in-flight"
  alarm_description   = "At 120,000 hidden messages this queue returns none at all, and parking long waits does not keep it below that: too many deliveries wait for less than three minutes, or dispatch can't write the state table (see its logs). Ask AWS for a higher quota, or lower retry_in_flight_limit so that more long waits are parked (0 parks all of them). More retry queues help only the event subscriptions that move to them."
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

# The age of the oldest message says nothing about a retry queue, because hidden messages, which wait as they should, count too.
# The number of due messages does.
resource "aws_cloudwatch_metric_alarm" "retry_late" {
  count = local.all_alarms * length(local.retry_queues_by_ten)

  alarm_name          = count.index == 0 ? "${var.name_prefix}-retry-late" : "${var.name_prefix}-retry-late-${count.index}"
  alarm_description   = "For a quarter of an hour, over ${var.alarm_due_retries} due messages have been waiting in a retry queue: retries are late by the time it takes to process them. Look at Errors, Throttles and logs of ${var.name_prefix}-dispatch; raise retry_concurrency, or the account's Lambda concurrency. Nothing is lost, but time-to-live keeps running."
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

# The functions also write their metrics without dimensions, because alarms can't search.
resource "aws_cloudwatch_metric_alarm" "stuck_parked" {
  count = local.all_alarms

  alarm_name          = "${var.name_prefix}-parked-stuck"
  alarm_description   = "Parked deliveries could not be sent back to a retry queue when they were due; Gridpost tries each again after 5 minutes to an hour, and nothing is lost. The log lines 'failed to send a parked delivery back' and 'failed to send a held delivery back' of ${var.name_prefix}-wake say which and why: a message over queue_message_bytes_max that can't be read, or a retry queue or its key that refuses. gridpost parked list shows each with its problem; gridpost parked release sends them once the cause is fixed."
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

# As in the alarm on late messages, what was received three times does not show. The largest publish takes about five minutes.
resource "aws_cloudwatch_metric_alarm" "fan_out_age" {
  count = local.all_alarms

  alarm_name          = "${local.fan_out_queue_name}-age"
  alarm_description   = "A large publish is waiting and is not expanded: look at Errors, Throttles, logs and the event source mapping of ${var.name_prefix}-expand, and at fan_out_concurrency. (Of one that is expanded in vain, ${var.name_prefix}-kept tells.) Nothing is lost for 14 days, but time-to-live counts from the publish."
  tags                = local.tags
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.fan_out_queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = 900
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "redrive_age" {
  count = local.all_alarms

  alarm_name          = "${local.redrive_queue_name}-age"
  alarm_description   = "A redrive job is waiting and is not worked at: look at Errors, Throttles and logs of ${var.name_prefix}-redrive. (Of a job that is worked at in vain, ${var.name_prefix}-kept tells.) The job will continue from its stored position; its message is kept for 14 days."
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
  alarm_description   = "Invocations of ingest, expand, dispatch, dead-letter, redrive or manage have failed: a bug, too little memory, or a timeout. Their Errors metrics say which function, and its logs say why. The work of a failed invocation is done again; a failed publish was answered with 5xx."
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
  alarm_description   = "Lambda has throttled invocations for a quarter of an hour: the account's concurrency is used up, by this deployment or by other functions, or ingest_reserved_concurrency is. The Throttles metrics say which function. Ask for a higher quota, or lower first_attempt_concurrency and retry_concurrency."
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
  alarm_description   = "DynamoDB has throttled reads or writes: one key exceeds 1,000 writes or 3,000 reads a second, or the account's quota for on-demand tables is reached. Deliveries whose state can't be written wait and come back."
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
  alarm_description   = "The manage API answers with 5xx: operators and Terraform can't change configuration. Deliveries continue. Look at the logs of ${var.name_prefix}-manage."
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
