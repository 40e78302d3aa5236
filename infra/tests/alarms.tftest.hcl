# Which alarms are made, what each looks at, and whom they tell.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir = "tests/functions"
}

run "six_alarms_page_and_no_dashboard_costs" {
  command = plan

  variables {
    dead_letter_delay_seconds = 900
    alarm_queue_age_seconds   = 600
    alarm_topic_arns          = ["arn:aws:sns:eu-central-1:123456789012:ops"]
  }

  assert {
    condition = (
      toset(values(aws_cloudwatch_metric_alarm.this)[*].alarm_name) == toset([
        for suffix in ["publish-refused", "late", "kept", "poison-not-empty", "events-dropped", "wake-not-running"] : "gridpost-${suffix}"
      ])
      && length(aws_cloudwatch_dashboard.this) == 0
    )
    error_message = "other alarms are made, or a dashboard: ${jsonencode(keys(aws_cloudwatch_metric_alarm.this))}"
  }

  assert {
    condition = alltrue([
      for alarm in aws_cloudwatch_metric_alarm.this :
      alarm.alarm_actions == toset(["arn:aws:sns:eu-central-1:123456789012:ops"]) && length(alarm.ok_actions) == 0
      && length(alarm.alarm_description) <= 1024
    ])
    error_message = "an alarm tells no one, or not that it is over, or describes itself at greater length than CloudWatch takes"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["publish-refused"].namespace == "AWS/ApiGateway"
      && aws_cloudwatch_metric_alarm.this["publish-refused"].metric_name == "5xx"
      && aws_cloudwatch_metric_alarm.this["publish-refused"].threshold == 3
    )
    error_message = "publishes that are answered with 503 page no one"
  }

  # The dead letters' normal age allows for their delay.
  assert {
    condition = (
      one([for query in aws_cloudwatch_metric_alarm.this["late"].metric_query : query.expression if query.id == "late"])
      == "MAX([FILL(dead_letter, 0) / 1220, FILL(dispatch, 0) / 600])"
      && aws_cloudwatch_metric_alarm.this["late"].threshold == 1
      && toset([for query in aws_cloudwatch_metric_alarm.this["late"].metric_query : query.metric[0].dimensions["QueueName"] if query.id != "late"])
      == toset(["gridpost-dispatch", "gridpost-dead-letter"])
    )
    error_message = "no one hears of what waits: ${jsonencode(aws_cloudwatch_metric_alarm.this["late"].metric_query)}"
  }

  # SQS leaves messages that come back out of the age that the alarm on late ones looks at. By default one that S3 refuses
  # comes back every 320 seconds.
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["kept"].metric_name == "KeptCount" && aws_cloudwatch_metric_alarm.this["kept"].dimensions == null
      && aws_cloudwatch_metric_alarm.this["kept"].namespace == "Gridpost" && aws_cloudwatch_metric_alarm.this["kept"].threshold == 0
      && aws_cloudwatch_metric_alarm.this["kept"].comparison_operator == "GreaterThanThreshold"
      && aws_cloudwatch_metric_alarm.this["kept"].datapoints_to_alarm == 3 && aws_cloudwatch_metric_alarm.this["kept"].evaluation_periods == 6
    )
    error_message = "no one hears of messages that come back, or at the first failure"
  }

  # A run that is missing is told by the state without data, in which a new alarm begins without telling it.
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["wake-not-running"].dimensions == tomap({ FunctionName = "gridpost-wake" })
      && aws_cloudwatch_metric_alarm.this["wake-not-running"].treat_missing_data == "missing"
      && aws_cloudwatch_metric_alarm.this["wake-not-running"].insufficient_data_actions == aws_cloudwatch_metric_alarm.this["wake-not-running"].alarm_actions
    )
    error_message = "a wake that does not run raises no alarm, or one that was never there does"
  }
}

# A dead letter that is kept for a week comes back every 20 minutes, and Lambda may wait to fill its batch.
run "messages_that_seldom_come_back_are_watched_for_longer" {
  command = plan

  variables {
    dead_letter_give_up_seconds = 604800
    dead_letter_window_seconds  = 300
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["kept"].evaluation_periods == 14 && aws_cloudwatch_metric_alarm.this["kept"].datapoints_to_alarm == 3
    error_message = "a lone message comes back unseen: ${aws_cloudwatch_metric_alarm.this["kept"].evaluation_periods} intervals are looked at"
  }
}

run "publishes_by_function_url_are_watched_too" {
  command = plan

  variables {
    publish_front_door     = "FUNCTION_URL"
    alarm_failed_publishes = 7
    alarm_topic_arns       = ["arn:aws:sns:eu-central-1:123456789012:ops"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["publish-refused"].namespace == "AWS/Lambda"
      && aws_cloudwatch_metric_alarm.this["publish-refused"].metric_name == "Url5xxCount"
      && aws_cloudwatch_metric_alarm.this["publish-refused"].dimensions == tomap({ FunctionName = "gridpost-ingest" })
    )
    error_message = "publishes that are answered with 503 page no one"
  }

  assert {
    condition = alltrue([
      for alarm in [aws_cloudwatch_metric_alarm.this["publish-throttled"]] :
      alarm.namespace == "AWS/Lambda" && alarm.metric_name == "Throttles" && alarm.statistic == "Sum"
      && alarm.dimensions == tomap({ FunctionName = "gridpost-ingest" })
      && alarm.threshold == 7 && alarm.comparison_operator == "GreaterThanOrEqualToThreshold"
      && alarm.alarm_actions == toset(["arn:aws:sns:eu-central-1:123456789012:ops"]) && length(alarm.ok_actions) == 0
      && length(alarm.alarm_description) <= 1024
    ])
    error_message = "publishes that Lambda answers with 429 page no one"
  }
}

# A new alarm ends its state without data within minutes: each would send a message after the first apply.
run "an_alarm_tells_of_its_end_on_request" {
  command = plan

  variables {
    alarm_topic_arns = ["arn:aws:sns:eu-central-1:123456789012:ops"]
    alarm_ends       = true
  }

  assert {
    condition = length(aws_cloudwatch_metric_alarm.this) == 6 && alltrue([
      for alarm in aws_cloudwatch_metric_alarm.this : alarm.ok_actions == toset(["arn:aws:sns:eu-central-1:123456789012:ops"])
    ])
    error_message = "a pager does not learn that an alarm is over"
  }
}

run "no_alarms_where_none_are_wanted" {
  command = plan

  variables {
    alarms             = "NONE"
    publish_front_door = "FUNCTION_URL"
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) == 0
    error_message = "alarms are made: ${jsonencode(keys(aws_cloudwatch_metric_alarm.this))}"
  }
}

run "all_alarms_tell_of_causes" {
  command = plan

  variables {
    alarms                        = "ALL"
    retry_queue_count             = 2
    alarm_dead_letters            = 10
    alarm_failed_attempts_percent = 75
    alarm_due_retries             = 5
    alarm_topic_arns              = ["arn:aws:sns:eu-central-1:123456789012:ops"]
  }

  assert {
    condition = toset(values(aws_cloudwatch_metric_alarm.this)[*].alarm_name) == toset([
      for suffix in [
        "publish-refused", "late", "kept", "poison-not-empty", "events-dropped", "wake-not-running", "dead-letters",
        "failed-attempts", "retry-0-in-flight", "retry-1-in-flight", "slow-in-flight", "retry-late", "parked-stuck", "redrive-age", "fan-out-age",
        "function-errors", "function-throttles", "table-throttles", "manage-failing",
      ] : "gridpost-${suffix}"
    ])
    error_message = "other alarms are made: ${jsonencode(keys(aws_cloudwatch_metric_alarm.this))}"
  }

  assert {
    condition = alltrue([
      for alarm in aws_cloudwatch_metric_alarm.this :
      alarm.alarm_actions == toset(["arn:aws:sns:eu-central-1:123456789012:ops"]) && length(alarm.ok_actions) == 0
      && length(alarm.alarm_description) <= 1024
    ])
    error_message = "an alarm tells no one, or not that it is over, or describes itself at greater length than CloudWatch takes"
  }

  # Alarms on Gridpost's own metrics have no dimensions. The API alarms are left out: AWS assigns their ids.
  assert {
    condition = {
      for suffix, alarm in aws_cloudwatch_metric_alarm.this : suffix => join(" ", [
        alarm.statistic, alarm.namespace, alarm.metric_name, try(one(values(alarm.dimensions)), "-"),
        alarm.comparison_operator, alarm.threshold, alarm.evaluation_periods, alarm.period, alarm.treat_missing_data,
      ]) if alarm.metric_name != null && alarm.namespace != "AWS/ApiGateway"
      } == {
      "kept"              = "Sum Gridpost KeptCount - GreaterThanThreshold 0 6 300 notBreaching"
      "poison-not-empty"  = "Maximum AWS/SQS ApproximateNumberOfMessagesVisible gridpost-poison GreaterThanThreshold 0 1 300 notBreaching"
      "events-dropped"    = "Sum Gridpost DroppedEventCount - GreaterThanThreshold 0 1 300 notBreaching"
      "wake-not-running"  = "Sum AWS/Lambda Errors gridpost-wake GreaterThanThreshold 0 5 60 missing"
      "dead-letters"      = "Sum Gridpost DeadLetteredCount - GreaterThanThreshold 10 1 300 notBreaching"
      "retry-0-in-flight" = "Maximum AWS/SQS ApproximateNumberOfMessagesNotVisible gridpost-retry-0 GreaterThanOrEqualToThreshold 100000 3 60 notBreaching"
      "retry-1-in-flight" = "Maximum AWS/SQS ApproximateNumberOfMessagesNotVisible gridpost-retry-1 GreaterThanOrEqualToThreshold 100000 3 60 notBreaching"
      "slow-in-flight"    = "Maximum AWS/SQS ApproximateNumberOfMessagesNotVisible gridpost-slow GreaterThanOrEqualToThreshold 100000 3 60 notBreaching"
      "parked-stuck"      = "Sum Gridpost StuckParkedCount - GreaterThanThreshold 0 1 300 notBreaching"
      "redrive-age"       = "Maximum AWS/SQS ApproximateAgeOfOldestMessage gridpost-redrive GreaterThanThreshold 900 3 60 notBreaching"
      "fan-out-age"       = "Maximum AWS/SQS ApproximateAgeOfOldestMessage gridpost-fan-out GreaterThanThreshold 900 3 60 notBreaching"
    }
    error_message = "an alarm looks at something else, or goes off at something else"
  }

  assert {
    condition = (
      one([for query in aws_cloudwatch_metric_alarm.this["retry-late"].metric_query : query.expression if query.id == "most"])
      == "MAX([FILL(due0, 0), FILL(due1, 0), FILL(due2, 0)])"
      && aws_cloudwatch_metric_alarm.this["retry-late"].threshold == 5
      && alltrue([for query in aws_cloudwatch_metric_alarm.this["retry-late"].metric_query : query.metric[0].stat == "Minimum" if query.id != "most"])
    )
    error_message = "no one hears of retries that come late: ${jsonencode(aws_cloudwatch_metric_alarm.this["retry-late"].metric_query)}"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["failed-attempts"].threshold == 75
      && toset(aws_cloudwatch_metric_alarm.this["failed-attempts"].metric_query[*].id) == toset(["percent", "failed", "delivered"])
    )
    error_message = "no one hears of failing attempts"
  }

  assert {
    condition = (
      toset([for query in aws_cloudwatch_metric_alarm.this["function-errors"].metric_query : query.metric[0].dimensions["FunctionName"] if query.id != "all"])
      == toset(["gridpost-ingest", "gridpost-expand", "gridpost-dispatch", "gridpost-dead-letter", "gridpost-redrive", "gridpost-manage"])
      && length(aws_cloudwatch_metric_alarm.this["function-throttles"].metric_query) == 8
      && length(aws_cloudwatch_metric_alarm.this["table-throttles"].metric_query) == 5
      && one([for query in aws_cloudwatch_metric_alarm.this["table-throttles"].metric_query : query.expression if query.id == "all"])
      == "SUM([FILL(of0, 0), FILL(of1, 0), FILL(of2, 0), FILL(of3, 0)])"
    )
    error_message = "no one hears of failed runs or throttles"
  }
}

run "the_dashboard_shows_every_metric" {
  command = plan

  variables {
    dashboard = true
  }

  assert {
    condition = alltrue([
      for metric in [
        "PublishSuccessCount", "PublishFailCount", "MatchedEventCount", "UnmatchedEventCount", "DeliverySuccessCount",
        "DeliveryAttemptFailCount", "DeadLetteredCount", "RedrivenEventCount", "DroppedEventCount", "PoisonCount", "KeptCount", "ParkedCount", "StuckParkedCount", "HideFailCount",
        "ProbationCount", "PublishSuccessLatencyInMs", "DestinationProcessingDurationInMs", "DeliveryLatencyInMs",
        "ApproximateAgeOfOldestMessage",
      ] : strcontains(aws_cloudwatch_dashboard.this[0].dashboard_body, metric)
    ])
    error_message = "the dashboard leaves a metric out: ${aws_cloudwatch_dashboard.this[0].dashboard_body}"
  }

  assert {
    condition = (
      length(jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets) == 19
      && length(regexall("SEARCH[^]]*,Topic", aws_cloudwatch_dashboard.this[0].dashboard_body)) == 0
    )
    error_message = "the dashboard has other graphs, or searches for names that no metric has by default"
  }
}

# intake is a program, and each AWS source a function.
run "the_dashboard_shows_the_functions_that_exist" {
  command = plan

  variables {
    dashboard   = true
    aws_sources = true
  }

  assert {
    condition = (
      toset(flatten(regexall("\"FunctionName\",\"([a-z-]+)\"", aws_cloudwatch_dashboard.this[0].dashboard_body)))
      == toset([for name in ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"] : "gridpost-${name}"])
    )
    error_message = "the dashboard shows a function that does not exist, or leaves one out: ${aws_cloudwatch_dashboard.this[0].dashboard_body}"
  }
}

run "metrics_have_names_only_where_they_are_asked_for" {
  command = plan

  variables {
    dashboard                     = true
    metrics_by_event_subscription = true
  }

  assert {
    condition = alltrue([
      for environment in [
        module.ingest.environment, module.expand.environment, module.dispatch.environment, module.dead_letter.environment,
        module.redrive.environment, module.manage.environment, module.wake.environment,
      ] :
      environment["GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION"] == "true"
    ])
    error_message = "a function writes metrics without names"
  }

  assert {
    condition = (
      length(jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets) == 18
      && strcontains(aws_cloudwatch_dashboard.this[0].dashboard_body, "Error,Topic,EventSubscriptionName")
    )
    error_message = "the dashboard shows no names: ${aws_cloudwatch_dashboard.this[0].dashboard_body}"
  }
}
