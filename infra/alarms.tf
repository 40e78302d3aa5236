# What somebody must look at. Each description says what to do; docs/operating.md says more.

resource "aws_cloudwatch_metric_alarm" "poison" {
  alarm_name          = "${var.name_prefix}-poison-not-empty"
  alarm_description   = "Gridpost could not read a record, or not settle it in ${local.receives_max} receives: a bug, or a permission taken away. gridpost poison list says what they are and where they were; the logs of that function name their message ids and the cause. When it is repaired, gridpost poison resend sends them back. They are kept for 14 days from their first enqueue."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = local.poison_queue_name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

# SQS holds about 120,000 in flight per queue; at that wall long polling returns nothing more, without an error. From
# retry_in_flight_limit on dispatch parks long waits, and from 90,000 on, whatever that limit is, all of over three minutes: what
# still grows past 100,000, parking does not hold.
resource "aws_cloudwatch_metric_alarm" "retry_in_flight" {
  count = var.retry_queue_count

  alarm_name          = "${local.retry_queue_names[count.index]}-in-flight"
  alarm_description   = "At 120,000 hidden messages this queue stops giving out any, and parking long waits does not keep it below: too many deliveries are in waits of less than three minutes, or dispatch can't write the state table (its logs). Ask AWS for a higher quota; lower retry_in_flight_limit, so that long waits leave room (0 parks all of them). More retry queues help only subscriptions that move to them."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesNotVisible"
  dimensions          = { QueueName = local.retry_queue_names[count.index] }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 100000
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dead_letter_age" {
  alarm_name          = "${local.dead_letter_queue_name}-age"
  alarm_description   = "Dead letters wait to be written: S3 refuses (bucket gone, bucket policy, key policy) or the function fails; its logs name the bucket and the reason. After ${var.dead_letter_give_up_seconds} s they are dropped."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.dead_letter_queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  # Every dead letter waits for the delay and may wait for a window; five minutes more is not normal. Not later, because SQS
  # leaves messages that were received three times out of this metric.
  threshold          = var.dead_letter_delay_seconds + var.dead_letter_window_seconds + 300
  treat_missing_data = "notBreaching"
  alarm_actions      = var.alarm_topic_arns
}

# Events that were accepted, and no delivery of which exists yet.
resource "aws_cloudwatch_metric_alarm" "fan_out_age" {
  alarm_name          = "${local.fan_out_queue_name}-age"
  alarm_description   = "Publishes that were accepted wait to be expanded into deliveries: ingest fails at it (its logs say why), or the account's Lambda concurrency is used up, or there is more than can be done. They wait for 14 days at most, and their time-to-live counts from the publish."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.fan_out_queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  # The largest publish takes about five minutes. Not more than a few times that, because SQS leaves messages that were
  # received three times out of this metric.
  threshold          = 900
  treat_missing_data = "notBreaching"
  alarm_actions      = var.alarm_topic_arns
}

# Lambda reports Errors, if only 0, for every run: no data means that wake did not run, which is as bad as failing.
resource "aws_cloudwatch_metric_alarm" "wake" {
  alarm_name          = "${var.name_prefix}-wake-not-running"
  alarm_description   = "wake has failed, or not run at all, for five minutes: parked deliveries do not come back when due. Look at the logs of ${var.name_prefix}-wake, then at its schedule in EventBridge Scheduler and at the account's Lambda concurrency. Nothing is lost while it stands."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = "${var.name_prefix}-wake" }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
}

# The functions' metrics have a form without dimensions, because alarms can't search.
resource "aws_cloudwatch_metric_alarm" "stuck_parked" {
  alarm_name          = "${var.name_prefix}-parked-stuck"
  alarm_description   = "Parked deliveries could not be sent back to a retry queue when they were due; each is tried again after 5 minutes to an hour, and nothing is lost. The log lines 'can't be sent back' of ${var.name_prefix}-wake say which and why: a message over queue_message_bytes_max that can't be read, a retry queue or its key that refuses. gridpost parked list shows them with a problem; gridpost parked release sends them once the cause is gone."
  namespace           = local.metric_namespace
  metric_name         = "StuckParkedCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  alarm_name          = "${var.name_prefix}-dead-letters"
  alarm_description   = "Events ended undelivered and were written as dead letters. DeadLetteredCount by DeadLetterReason says why and whose; the records in the bucket say what the endpoints answered. gridpost subscription health says what is wrong with an endpoint. Repair it, then send the dead letters again. Where dead letters are everyday, raise alarm_dead_letters."
  namespace           = local.metric_namespace
  metric_name         = "DeadLetteredCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_dead_letters
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dropped" {
  alarm_name          = "${var.name_prefix}-events-dropped"
  alarm_description   = "Events ended undelivered and are gone. DroppedEventCount by DropReason says why and whose, the log lines 'events dropped' name the deliveries and event ids. DeadLetterDestinationUnavailable and DeadLetterDestinationNotFound: repair the bucket or its policy at once. PayloadMissing: somebody removes objects from the payload bucket. Other reasons: the event subscription has no dead-letter destination; give it one."
  namespace           = local.metric_namespace
  metric_name         = "DroppedEventCount"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dispatch_age" {
  alarm_name          = "${local.dispatch_queue_name}-age"
  alarm_description   = "First attempts come late. Look whether dispatch fails (its Errors, Throttles and logs), whether the account's Lambda concurrency or first_attempt_concurrency is used up, or endpoints are slow: a request may take 30 s and keeps its invocation so long. Nothing is lost, but time-to-live counts from the publish. Raise first_attempt_concurrency, or the account's quota."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = local.dispatch_queue_name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_queue_age_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "failed_attempts" {
  alarm_name          = "${var.name_prefix}-failed-attempts"
  alarm_description   = "Of what is attempted, much fails, for a quarter of an hour. DeliveryAttemptFailCount by Error says what endpoints answer and whose they are; gridpost tail --failed shows it live, gridpost subscription health what it does to an event subscription. SocketError and ResolutionError of all at once: this deployment's own network or DNS. Failing deliveries are tried again by their retry policy; act before their time-to-live ends."
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_failed_attempts_percent
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns

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
