# Five things that somebody must look at. Each description says what to do.

resource "aws_cloudwatch_metric_alarm" "poison" {
  alarm_name          = "${var.name_prefix}-poison-not-empty"
  alarm_description   = "Gridpost could not settle a record in ${local.receives_max} receives: a bug, or a permission taken away. Look for its message id in the logs of dispatch, dead-letter and ingest, repair the cause, then move the records back with SQS's redrive. They are kept for 14 days from their first enqueue."
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

# SQS holds about 120,000 in flight per queue; at that wall long polling returns nothing more, without an error.
resource "aws_cloudwatch_metric_alarm" "retry_in_flight" {
  count = var.retry_queue_count

  alarm_name          = "${local.retry_queue_names[count.index]}-in-flight"
  alarm_description   = "At 120,000 hidden messages this queue stops giving out any. Lower retry_in_flight_limit, so that long waits are parked instead (0 parks all of them), or ask AWS for a higher quota. More retry queues help only subscriptions that move to them."
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
