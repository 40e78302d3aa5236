# Alarms for operators, keyed by their names without the prefix. Each description says what to do; docs/operating.md says more.
# alarms = PAGES creates only those on events that are refused, late or lost, whatever the cause. The others are about causes, or
# about problems that can wait until the morning. An alarm costs 0.10 dollars a month for each metric: the paging alarms use
# seven, and one more with publish_front_door FUNCTION_URL.

locals {
  alarm_end_topic_arns = var.alarm_ends ? var.alarm_topic_arns : []

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

  # CloudWatch allows ten metrics per alarm.
  waiting_queues_by_ten = chunklist(values(local.waiting_queue_names), 10)

  # Metrics to sum. Alarms can't search, so the functions also write their own metrics without dimensions.
  failed_runs = {
    for index, name in ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage"] :
    "of${index}" => ["AWS/Lambda", "Errors", "FunctionName", "${var.name_prefix}-${name}"]
  }
  refused_runs = {
    for index, name in keys(local.functions) :
    "of${index}" => ["AWS/Lambda", "Throttles", "FunctionName", "${var.name_prefix}-${name}"]
  }
  throttled_requests = {
    for index, of in setproduct(["ReadThrottleEvents", "WriteThrottleEvents"], [local.config_table_name, local.state_table_name]) :
    "of${index}" => ["AWS/DynamoDB", of[0], "TableName", of[1]]
  }

  # Defaults of each alarm.
  alarm_defaults = {
    pages              = false
    metric             = [null, null] # namespace, name, and a dimension with its value;
    metrics            = {}           # or several, by ids,
    expression         = null         # and what they become
    statistic          = "Sum"
    seconds            = 300
    periods            = 1
    of_these           = null # periods that must breach, if not all
    above              = 0
    at_least           = null # instead of above
    tells_without_data = false
  }

  alarms = merge({
    # Failures that publishers see: ingest fails, is throttled or can't read its configuration, or API Gateway can't reach it.
    "publish-refused" = {
      pages       = true
      description = "Publishes are answered with 5xx: events are not accepted, and publishers must send them again. Look at the logs of ${var.name_prefix}-ingest (a 503 names what it could not reach), at its Errors and Throttles, and at the account's Lambda concurrency, which deliveries may use up: ingest_reserved_concurrency keeps some for publishes."
      metric = (
        local.publish_by_api ? ["AWS/ApiGateway", "5xx", "ApiId", join("", aws_apigatewayv2_api.publish[*].id)]
        : ["AWS/Lambda", "Url5xxCount", "FunctionName", "${var.name_prefix}-ingest"]
      )
      at_least = var.alarm_failed_publishes
    }

    # Errors and throttles of the functions that read these queues show here, whatever their cause. What a function receives and
    # gives back does not: the next alarm is for that.
    "late" = {
      pages       = true
      description = "Something has not been received for longer than is normal: first attempts (${local.dispatch_queue_name}, ${var.alarm_queue_age_seconds} s) or dead letters to be written (${local.dead_letter_queue_name}; after ${var.dead_letter_give_up_seconds} s they are dropped). The value is the age of the oldest message divided by the highest normal age for that queue. Look at Errors, Throttles and logs of the function that reads that queue (dispatch, dead-letter), at the account's Lambda concurrency and first_attempt_concurrency, and at slow endpoints. First attempts are not lost, but time-to-live counts from the publish. What was received three times does not show here: ${var.name_prefix}-kept tells of it."
      metrics     = { for name, normal in local.normal_ages : name => ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", normal.queue] }
      expression = {
        id    = "late"
        text  = "MAX([${join(", ", [for name, normal in local.normal_ages : "FILL(${name}, 0) / ${normal.seconds}"])}])"
        label = "Oldest message, in times of what is normal"
      }
      statistic = "Maximum"
      seconds   = 60
      periods   = 3
      above     = 1
    }

    # Single failures happen. Three intervals in a row would miss a lone message: it may come back less often than every five
    # minutes.
    "kept" = {
      pages       = true
      description = "Messages come back again and again, because dead-letter can't write dead letters (after ${var.dead_letter_give_up_seconds} s they are dropped), expand can't expand publishes, or redrive can't go on. KeptCount counts them, and ${var.name_prefix}-late does not see them. Look at the warnings and errors in the logs of ${var.name_prefix}-dead-letter, ${var.name_prefix}-expand and ${var.name_prefix}-redrive: a bucket or its policy, a KMS key, a queue or a table refuses. Repair it soon; what has not been dropped then goes on by itself."
      metric      = [local.metric_namespace, "KeptCount"]
      periods     = 3 + ceil(2 * local.longest_comeback_seconds / 300)
      of_these    = 3
    }

    "poison-not-empty" = {
      pages       = true
      description = "Gridpost could not read a message, or could not settle it in ${local.receives_max} receives: a bug, or a missing permission. gridpost poison list shows the messages and the queues they came from; the logs of that queue's function name the message ids and the cause. When it is fixed, gridpost poison resend sends them back. They are kept for 14 days from their first enqueue."
      metric      = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", local.poison_queue_name]
      statistic   = "Maximum"
    }

    "events-dropped" = {
      pages       = true
      description = "Events ended undelivered and are gone. DroppedEventCount by DropReason says why; the log lines 'events dropped' name the event subscriptions, deliveries and event ids. DeadLetterDestinationUnavailable and DeadLetterDestinationNotFound: repair the bucket or its policy at once. PayloadMissing: something removes objects from the payload bucket too early. Other reasons: the event subscription has no dead-letter destination; give it one."
      metric      = [local.metric_namespace, "DroppedEventCount"]
    }

    # Lambda reports Errors for every invocation, even if it is 0. So no data means that wake did not run, which is as bad as a
    # failure. The INSUFFICIENT_DATA state notifies, and missing data does not count as breaching: a new alarm begins in that
    # state, and must not notify before wake has run for the first time.
    "wake-not-running" = {
      pages              = true
      description        = "wake has failed or has not run for five minutes: parked deliveries do not come back when due. Look at the logs of ${var.name_prefix}-wake, then at its schedule in EventBridge Scheduler and at the account's Lambda concurrency. Nothing is lost meanwhile."
      metric             = ["AWS/Lambda", "Errors", "FunctionName", "${var.name_prefix}-wake"]
      seconds            = 60
      periods            = 5
      tells_without_data = true
    }

    "dead-letters" = {
      description = "Events ended undelivered and were written as dead letters. DeadLetteredCount by DeadLetterReason says why; the records in the bucket name the event subscriptions and the endpoints' answers. gridpost subscription health says what is wrong with an endpoint. Repair it, then redrive the dead letters. If dead letters are normal for you, raise alarm_dead_letters."
      metric      = [local.metric_namespace, "DeadLetteredCount"]
      above       = var.alarm_dead_letters
    }

    "failed-attempts" = {
      description = "Many attempts have failed for a quarter of an hour. DeliveryAttemptFailCount by Error says what endpoints answer; gridpost tail --failed shows which event subscriptions fail, and gridpost subscription health shows the effect on one. If all endpoints fail with SocketError or ResolutionError, look at this deployment's own network or DNS. Failing deliveries are retried by their retry policy; act before their time-to-live ends."
      metrics     = { failed = [local.metric_namespace, "DeliveryAttemptFailCount"], delivered = [local.metric_namespace, "DeliverySuccessCount"] }
      expression = {
        id    = "percent"
        text  = "IF(failed + FILL(delivered, 0) >= 20, 100 * failed / (failed + FILL(delivered, 0)), 0)"
        label = "Failed attempts, percent"
      }
      periods = 3
      above   = var.alarm_failed_attempts_percent
    }

    "parked-stuck" = {
      description = "Parked deliveries could not be sent back to a retry queue when they were due; Gridpost tries each again after 5 minutes to an hour, and nothing is lost. The log lines 'failed to send a parked delivery back' and 'failed to send a held delivery back' of ${var.name_prefix}-wake say which and why: a message over queue_message_bytes_max that can't be read, or a retry queue or its key that refuses. gridpost parked list shows each with its problem; gridpost parked release sends them once the cause is fixed."
      metric      = [local.metric_namespace, "StuckParkedCount"]
    }

    # As in the alarm on late messages, what was received three times does not show. The largest publish takes about five minutes.
    "fan-out-age" = {
      description = "A large publish is waiting and is not expanded: look at Errors, Throttles, logs and the event source mapping of ${var.name_prefix}-expand, and at fan_out_concurrency. (Of one that is expanded in vain, ${var.name_prefix}-kept tells.) Nothing is lost for 14 days, but time-to-live counts from the publish."
      metric      = ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", local.fan_out_queue_name]
      statistic   = "Maximum"
      seconds     = 60
      periods     = 3
      above       = 900
    }

    "redrive-age" = {
      description = "A redrive job is waiting and is not worked at: look at Errors, Throttles and logs of ${var.name_prefix}-redrive. (Of a job that is worked at in vain, ${var.name_prefix}-kept tells.) The job will continue from its stored position; its message is kept for 14 days."
      metric      = ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", local.redrive_queue_name]
      statistic   = "Maximum"
      seconds     = 60
      periods     = 3
      above       = 900
    }

    "function-errors" = {
      description = "Invocations of ingest, expand, dispatch, dead-letter, redrive or manage have failed: a bug, too little memory, or a timeout. Their Errors metrics say which function, and its logs say why. The work of a failed invocation is done again; a failed publish was answered with 5xx."
      metrics     = local.failed_runs
      expression  = { id = "all", text = "SUM([${join(", ", formatlist("FILL(%s, 0)", keys(local.failed_runs)))}])", label = "Failed runs" }
    }

    "function-throttles" = {
      description = "Lambda has throttled invocations for a quarter of an hour: the account's concurrency is used up, by this deployment or by other functions, or ingest_reserved_concurrency is. The Throttles metrics say which function. Ask for a higher quota, or lower first_attempt_concurrency, retry_concurrency and slow_concurrency."
      metrics     = local.refused_runs
      expression  = { id = "all", text = "SUM([${join(", ", formatlist("FILL(%s, 0)", keys(local.refused_runs)))}])", label = "Refused runs" }
      periods     = 3
    }

    "table-throttles" = {
      description = "DynamoDB has throttled reads or writes: one key exceeds 1,000 writes or 3,000 reads a second, or the account's quota for on-demand tables is reached. Deliveries whose state can't be written wait and come back."
      metrics     = local.throttled_requests
      expression  = { id = "all", text = "SUM([${join(", ", formatlist("FILL(%s, 0)", keys(local.throttled_requests)))}])", label = "Throttled requests" }
    }

    "manage-failing" = {
      description = "The manage API answers with 5xx: operators and Terraform can't change configuration. Deliveries continue. Look at the logs of ${var.name_prefix}-manage."
      metric      = ["AWS/ApiGateway", "5xx", "ApiId", aws_apigatewayv2_api.manage.id]
      at_least    = 3
    }
    }, {
    # Behind API Gateway a throttled invocation is a 5xx, which publish-refused counts. At the function URL Lambda itself answers
    # 429, which is not counted as 5xx.
    for suffix in ["publish-throttled"] : suffix => {
      pages       = true
      description = "Lambda answers publishes at the function URL with 429: events are not accepted, and publishers must send them again. Either deliveries or other functions have used up the account's Lambda concurrency (ingest_reserved_concurrency keeps some for publishes), or ingest has used up its ingest_reserved_concurrency. Ask for a higher quota, raise ingest_reserved_concurrency, or lower first_attempt_concurrency and retry_concurrency."
      metric      = ["AWS/Lambda", "Throttles", "FunctionName", "${var.name_prefix}-ingest"]
      at_least    = var.alarm_failed_publishes
    } if !local.publish_by_api
    }, {
    # SQS allows about 120,000 messages in flight per queue; at that limit long polling returns nothing, without an error. From
    # retry_in_flight_limit on, dispatch parks long waits, and from 90,000 on, whatever that limit is, all waits of over three
    # minutes. If the count still grows past 100,000, parking does not keep up.
    for role, name in local.waiting_queue_names : "${role}-in-flight" => {
      description = "At 120,000 hidden messages this queue returns none at all, and parking long waits does not keep it below that: too many deliveries wait for less than three minutes, or dispatch can't write the state table (see its logs). Ask AWS for a higher quota, or lower retry_in_flight_limit so that more long waits are parked (0 parks all of them). More retry queues help only the event subscriptions that move to them."
      metric      = ["AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "QueueName", name]
      statistic   = "Maximum"
      seconds     = 60
      periods     = 3
      at_least    = 100000
    }
    }, {
    # The age of the oldest message says nothing about such a queue, because hidden messages, which wait as they should, count
    # too. The number of due messages does.
    for index, names in local.waiting_queues_by_ten : index == 0 ? "retry-late" : "retry-late-${index}" => {
      description = "For a quarter of an hour, over ${var.alarm_due_retries} due messages have been waiting in a retry queue or the slow queue: retries are late by the time it takes to process them. Look at Errors, Throttles and logs of ${var.name_prefix}-dispatch; raise retry_concurrency or slow_concurrency, or the account's Lambda concurrency. Nothing is lost, but time-to-live keeps running."
      metrics     = { for index, name in names : "due${index}" => ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", name] }
      expression = {
        id    = "most"
        text  = "MAX([${join(", ", formatlist("FILL(due%d, 0)", range(length(names))))}])"
        label = "Messages that are due, at the least, in the worst queue"
      }
      statistic = "Minimum"
      periods   = 3
      above     = var.alarm_due_retries
    }
  })
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = {
    for suffix, alarm in local.alarms : suffix => merge(local.alarm_defaults, alarm)
    if var.alarms == "ALL" || var.alarms == "PAGES" && lookup(alarm, "pages", false)
  }

  alarm_name                = "${var.name_prefix}-${each.key}"
  alarm_description         = each.value.description
  tags                      = local.tags
  alarm_actions             = var.alarm_topic_arns
  ok_actions                = local.alarm_end_topic_arns
  insufficient_data_actions = each.value.tells_without_data ? var.alarm_topic_arns : null
  treat_missing_data        = each.value.tells_without_data ? "missing" : "notBreaching"
  namespace                 = each.value.metric[0]
  metric_name               = each.value.metric[1]
  dimensions                = length(each.value.metric) > 2 ? { (each.value.metric[2]) = each.value.metric[3] } : null
  statistic                 = each.value.expression == null ? each.value.statistic : null
  period                    = each.value.expression == null ? each.value.seconds : null
  evaluation_periods        = each.value.periods
  datapoints_to_alarm       = each.value.of_these
  comparison_operator       = each.value.at_least == null ? "GreaterThanThreshold" : "GreaterThanOrEqualToThreshold"
  threshold                 = coalesce(each.value.at_least, each.value.above)

  dynamic "metric_query" {
    for_each = each.value.expression[*]

    content {
      id          = metric_query.value.id
      expression  = metric_query.value.text
      label       = metric_query.value.label
      return_data = true
    }
  }

  dynamic "metric_query" {
    for_each = each.value.metrics

    content {
      id = metric_query.key

      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = length(metric_query.value) > 2 ? { (metric_query.value[2]) = metric_query.value[3] } : null
        stat        = each.value.statistic
        period      = each.value.seconds
      }
    }
  }
}
