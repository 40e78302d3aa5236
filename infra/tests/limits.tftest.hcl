# Sizes, times and protections: what is set, how it follows from a variable, and that no range can be left.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir = "tests/functions"
}

run "defaults" {
  command = plan

  assert {
    condition     = length(aws_sqs_queue.retry) == 4 && length(aws_cloudwatch_metric_alarm.retry_in_flight) == 4
    error_message = "there are ${length(aws_sqs_queue.retry)} retry queues"
  }

  assert {
    condition = alltrue([
      for queue in concat([aws_sqs_queue.dispatch], aws_sqs_queue.retry) : queue.visibility_timeout_seconds == 241
    ])
    error_message = "dispatch runs for 210 s; its queues must hide a record for 241 s"
  }

  assert {
    condition = (
      aws_apigatewayv2_stage.manage.default_route_settings[0].throttling_rate_limit == 50
      && tomap({ for route in aws_apigatewayv2_stage.manage.route_settings : route.route_key => route.throttling_rate_limit }) == tomap({
        "GET /topics/{topic}/eventSubscriptions/{name}/validate"  = 5
        "POST /topics/{topic}/eventSubscriptions/{name}/validate" = 5
      })
    )
    error_message = "the open validation routes must have a small rate of their own"
  }

  assert {
    condition     = aws_sqs_queue.dead_letter.visibility_timeout_seconds == 360
    error_message = "the dead-letter queue hides for ${aws_sqs_queue.dead_letter.visibility_timeout_seconds} s"
  }

  assert {
    condition     = aws_sqs_queue.fan_out.visibility_timeout_seconds == 59
    error_message = "ingest runs for 29 s; the fan-out queue must hide a piece for 59 s"
  }

  assert {
    condition     = aws_sqs_queue.redrive.visibility_timeout_seconds == 90
    error_message = "dead-letter runs for 60 s; the redrive queue must hide a job for 90 s"
  }

  assert {
    condition = alltrue([
      for queue in concat(
        [
          aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive, aws_sqs_queue.poison,
        ], aws_sqs_queue.retry
      ) :
      queue.message_retention_seconds == 1209600 && queue.sqs_managed_sse_enabled && queue.max_message_size == 262144
    ])
    error_message = "a queue is without 14 days, encryption or 256 KiB"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.dispatch.batch_size == 10
      && aws_lambda_event_source_mapping.dispatch.maximum_batching_window_in_seconds == 0
      && aws_lambda_event_source_mapping.dispatch.scaling_config[0].maximum_concurrency == 550
      && alltrue([
        for mapping in aws_lambda_event_source_mapping.retry :
        mapping.batch_size == 100 && mapping.maximum_batching_window_in_seconds == 1 && mapping.scaling_config[0].maximum_concurrency == 50
      ])
      && aws_lambda_event_source_mapping.fan_out.batch_size == 1
      && aws_lambda_event_source_mapping.fan_out.scaling_config[0].maximum_concurrency == 5
      && aws_lambda_event_source_mapping.redrive.batch_size == 1
      && aws_lambda_event_source_mapping.redrive.scaling_config[0].maximum_concurrency == 5
      && aws_lambda_event_source_mapping.dead_letter.batch_size == 100
      && aws_lambda_event_source_mapping.dead_letter.maximum_batching_window_in_seconds == 20
    )
    error_message = "a mapping has other batches or another concurrency"
  }

  assert {
    condition = alltrue([
      for table in [aws_dynamodb_table.config, aws_dynamodb_table.state] :
      table.billing_mode == "PAY_PER_REQUEST" && table.hash_key == "pk" && table.range_key == "sk"
      && length(table.server_side_encryption) == 0 && table.deletion_protection_enabled
    ])
    error_message = "a table is not on demand, keyed by pk and sk and protected, or its key's requests are charged"
  }

  assert {
    condition     = aws_dynamodb_table.config.point_in_time_recovery[0].enabled
    error_message = "configuration cannot be brought back"
  }

  assert {
    condition     = one(aws_dynamodb_table.state.ttl).attribute_name == "expiresAt" && one(aws_dynamodb_table.state.ttl).enabled
    error_message = "state is never cleaned up"
  }

  assert {
    condition = (
      one(aws_dynamodb_table.state.global_secondary_index).name == "waiting"
      && one(aws_dynamodb_table.state.global_secondary_index).hash_key == "waitingFor"
      && one(aws_dynamodb_table.state.global_secondary_index).range_key == "waitingPlace"
      && one(aws_dynamodb_table.state.global_secondary_index).projection_type == "KEYS_ONLY"
    )
    error_message = "waiting deliveries cannot be found by event subscription"
  }

  assert {
    condition = (
      aws_s3_bucket.dead_letters.bucket == "gridpost-dead-letters-123456789012-eu-central-1"
      && aws_s3_bucket.dead_letters.force_destroy == false
      && aws_s3_bucket_public_access_block.dead_letters.block_public_acls
      && aws_s3_bucket_public_access_block.dead_letters.block_public_policy
      && aws_s3_bucket_public_access_block.dead_letters.ignore_public_acls
      && aws_s3_bucket_public_access_block.dead_letters.restrict_public_buckets
      && aws_s3_bucket_ownership_controls.dead_letters.rule[0].object_ownership == "BucketOwnerEnforced"
      && one(one(aws_s3_bucket_server_side_encryption_configuration.dead_letters.rule).apply_server_side_encryption_by_default).sse_algorithm == "AES256"
    )
    error_message = "the dead-letter bucket is open, unprotected or not encrypted"
  }

  assert {
    condition = (
      aws_s3_bucket.payloads.bucket == "gridpost-payloads-123456789012-eu-central-1"
      && aws_s3_bucket.payloads.force_destroy == false
      && aws_s3_bucket_public_access_block.payloads.block_public_acls
      && aws_s3_bucket_public_access_block.payloads.block_public_policy
      && aws_s3_bucket_public_access_block.payloads.ignore_public_acls
      && aws_s3_bucket_public_access_block.payloads.restrict_public_buckets
      && aws_s3_bucket_ownership_controls.payloads.rule[0].object_ownership == "BucketOwnerEnforced"
      && one(one(aws_s3_bucket_server_side_encryption_configuration.payloads.rule).apply_server_side_encryption_by_default).sse_algorithm == "AES256"
    )
    error_message = "the payload bucket is open, unprotected or not encrypted"
  }

  # Time-to-live of 7 days at most, and 14 days in the dead-letter queue.
  assert {
    condition = (
      aws_s3_bucket_lifecycle_configuration.payloads.rule[0].status == "Enabled"
      && one(aws_s3_bucket_lifecycle_configuration.payloads.rule[0].expiration).days > 28
    )
    error_message = "payloads are removed while a delivery or a piece of a publish may still need them, or never"
  }

  assert {
    condition = (
      aws_apigatewayv2_stage.publish[0].name == "$default" && aws_apigatewayv2_stage.publish[0].auto_deploy
      && aws_apigatewayv2_stage.publish[0].default_route_settings[0].throttling_rate_limit == 5000
      && aws_apigatewayv2_stage.publish[0].default_route_settings[0].throttling_burst_limit == 2500
      && aws_apigatewayv2_stage.manage.name == "$default" && aws_apigatewayv2_stage.manage.auto_deploy
      && aws_apigatewayv2_stage.manage.default_route_settings[0].throttling_rate_limit == 50
    )
    error_message = "a stage is not the default one, or is not throttled"
  }
}

run "visibility_follows_the_timeout" {
  command = plan

  variables {
    dispatch_timeout_seconds = 900
  }

  assert {
    condition = alltrue([
      for queue in concat([aws_sqs_queue.dispatch], aws_sqs_queue.retry) : queue.visibility_timeout_seconds == 931
    ])
    error_message = "Lambda would refuse a queue that hides for ${aws_sqs_queue.dispatch.visibility_timeout_seconds} s"
  }
}

run "alarms_stand_before_the_walls" {
  command = plan

  variables {
    retry_queue_count         = 1
    dead_letter_delay_seconds = 900
    alarm_topic_arns          = ["arn:aws:sns:eu-central-1:123456789012:ops"]
  }

  assert {
    condition = alltrue([
      for alarm in concat(
        [
          aws_cloudwatch_metric_alarm.poison, aws_cloudwatch_metric_alarm.dead_letter_age,
          aws_cloudwatch_metric_alarm.fan_out_age, aws_cloudwatch_metric_alarm.wake, aws_cloudwatch_metric_alarm.stuck_parked,
          aws_cloudwatch_metric_alarm.dead_letters, aws_cloudwatch_metric_alarm.dropped,
          aws_cloudwatch_metric_alarm.dispatch_age, aws_cloudwatch_metric_alarm.failed_attempts,
        ],
        aws_cloudwatch_metric_alarm.retry_in_flight,
      ) :
      alarm.alarm_actions == toset(["arn:aws:sns:eu-central-1:123456789012:ops"]) && length(alarm.alarm_description) <= 1024
    ])
    error_message = "an alarm tells nobody, or describes itself at greater length than CloudWatch takes"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.poison.metric_name == "ApproximateNumberOfMessagesVisible"
      && aws_cloudwatch_metric_alarm.poison.dimensions == tomap({ QueueName = "gridpost-poison" })
      && aws_cloudwatch_metric_alarm.poison.comparison_operator == "GreaterThanThreshold"
      && aws_cloudwatch_metric_alarm.poison.threshold == 0
    )
    error_message = "nobody hears of a poisoned record"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.retry_in_flight[0].metric_name == "ApproximateNumberOfMessagesNotVisible"
      && aws_cloudwatch_metric_alarm.retry_in_flight[0].dimensions == tomap({ QueueName = "gridpost-retry-0" })
      && aws_cloudwatch_metric_alarm.retry_in_flight[0].threshold == 100000
    )
    error_message = "nobody hears of a full retry queue"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.dead_letter_age.dimensions == tomap({ QueueName = "gridpost-dead-letter" })
      && aws_cloudwatch_metric_alarm.dead_letter_age.threshold == 1220
    )
    error_message = "the age alarm must allow for the delay, got ${aws_cloudwatch_metric_alarm.dead_letter_age.threshold} s"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.fan_out_age.metric_name == "ApproximateAgeOfOldestMessage"
      && aws_cloudwatch_metric_alarm.fan_out_age.dimensions == tomap({ QueueName = "gridpost-fan-out" })
      && aws_cloudwatch_metric_alarm.fan_out_age.threshold == 900
    )
    error_message = "nobody hears of publishes that are not expanded"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.wake.dimensions == tomap({ FunctionName = "gridpost-wake" })
      && aws_cloudwatch_metric_alarm.wake.treat_missing_data == "breaching"
    )
    error_message = "a wake that does not run raises no alarm"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.stuck_parked.metric_name == "StuckParkedCount"
      && aws_cloudwatch_metric_alarm.stuck_parked.namespace == "Gridpost"
      && aws_cloudwatch_metric_alarm.stuck_parked.threshold == 0
    )
    error_message = "a parked delivery that can't be sent back raises no alarm"
  }
}

run "alarms_hear_of_events_that_fail" {
  command = plan

  variables {
    alarm_dead_letters            = 10
    alarm_failed_attempts_percent = 75
    alarm_queue_age_seconds       = 600
  }

  assert {
    condition = alltrue([
      for alarm, metric in {
        dead_letters = aws_cloudwatch_metric_alarm.dead_letters, dropped = aws_cloudwatch_metric_alarm.dropped
      } :
      metric.namespace == "Gridpost" && metric.dimensions == null && metric.statistic == "Sum"
    ])
    error_message = "an alarm looks at a metric by dimensions, which it can't know"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.dead_letters.metric_name == "DeadLetteredCount"
      && aws_cloudwatch_metric_alarm.dead_letters.threshold == 10
      && aws_cloudwatch_metric_alarm.dropped.metric_name == "DroppedEventCount"
      && aws_cloudwatch_metric_alarm.dropped.threshold == 0
    )
    error_message = "nobody hears of events that end undelivered"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.dispatch_age.dimensions == tomap({ QueueName = "gridpost-dispatch" })
      && aws_cloudwatch_metric_alarm.dispatch_age.threshold == 600
      && aws_cloudwatch_metric_alarm.failed_attempts.threshold == 75
      && toset(aws_cloudwatch_metric_alarm.failed_attempts.metric_query[*].id) == toset(["percent", "failed", "delivered"])
    )
    error_message = "nobody hears of late or failing attempts"
  }
}

run "the_dashboard_shows_every_metric" {
  command = plan

  assert {
    condition = alltrue([
      for metric in [
        "PublishSuccessCount", "PublishFailCount", "MatchedEventCount", "UnmatchedEventCount", "DeliverySuccessCount",
        "DeliveryAttemptFailCount", "DeadLetteredCount", "RedrivenEventCount", "DroppedEventCount", "PoisonCount", "ParkedCount", "StuckParkedCount", "HideFailCount",
        "ProbationCount", "PublishSuccessLatencyInMs", "DestinationProcessingDurationInMs", "DeliveryLatencyInMs",
        "ApproximateAgeOfOldestMessage",
      ] : strcontains(aws_cloudwatch_dashboard.this.dashboard_body, metric)
    ])
    error_message = "the dashboard leaves a metric out: ${aws_cloudwatch_dashboard.this.dashboard_body}"
  }

  assert {
    condition     = length(jsondecode(aws_cloudwatch_dashboard.this.dashboard_body).widgets) == 18
    error_message = "the dashboard has other graphs"
  }
}

run "unprotected_data_can_be_destroyed" {
  command = plan

  variables {
    protect_data = false
  }

  assert {
    condition = (
      aws_s3_bucket.dead_letters.force_destroy
      && aws_s3_bucket.payloads.force_destroy
      && !aws_dynamodb_table.config.deletion_protection_enabled
      && !aws_dynamodb_table.state.deletion_protection_enabled
    )
    error_message = "destroy would stop at data although protect_data is false"
  }
}

run "the_longest_names_fit" {
  command = plan

  variables {
    name_prefix             = "abcdefghijklmnopqrst"
    account                 = { id = "123456789012", region = "ap-southeast-1" }
    dead_letter_bucket_arns = [for number in range(30) : "arn:aws:s3:::${format("%063d", number)}"]
    retry_queue_count       = 32
  }

  assert {
    condition     = length(aws_s3_bucket.dead_letters.bucket) <= 63
    error_message = "bucket name ${aws_s3_bucket.dead_letters.bucket} has ${length(aws_s3_bucket.dead_letters.bucket)} characters"
  }

  assert {
    condition     = length(module.dispatch.policy) <= 10240
    error_message = "IAM takes 10,240 characters of inline policies for a role; dispatch's has ${length(module.dispatch.policy)}"
  }

  assert {
    condition     = length(module.manage.policy) <= 10240
    error_message = "manage's policy has ${length(module.manage.policy)} characters"
  }

  assert {
    condition     = length(join("", concat(keys(module.dispatch.environment), values(module.dispatch.environment)))) < 4000
    error_message = "dispatch's environment leaves no room for networks"
  }

  assert {
    condition = (
      module.dispatch.environment["GRIDPOST_METRIC_NAMESPACE"] == "Gridpost/abcdefghijklmnopqrst"
      && aws_cloudwatch_metric_alarm.dropped.namespace == "Gridpost/abcdefghijklmnopqrst"
      && strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "{Gridpost/abcdefghijklmnopqrst,Topic}")
    )
    error_message = "two deployments of one account and region share metrics and alarms"
  }
}
