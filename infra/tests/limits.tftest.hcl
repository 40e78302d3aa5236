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
    condition     = length(aws_sqs_queue.retry) == 3
    error_message = "there are ${length(aws_sqs_queue.retry)} retry queues"
  }

  assert {
    condition = alltrue([
      for queue in concat([aws_sqs_queue.dispatch], aws_sqs_queue.retry) : queue.visibility_timeout_seconds == 240
    ])
    error_message = "dispatch runs for 210 s; its queues must hide a record for 240 s"
  }

  assert {
    condition     = aws_sqs_queue.slow.visibility_timeout_seconds == 260
    error_message = "Lambda may hold a record of the slow queue for 20 s before; it hides for ${aws_sqs_queue.slow.visibility_timeout_seconds} s"
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
    error_message = "expand runs for 29 s; the fan-out queue must hide a piece for 59 s"
  }

  assert {
    condition     = aws_sqs_queue.redrive.visibility_timeout_seconds == 90
    error_message = "redrive runs for 60 s; the redrive queue must hide a job for 90 s"
  }

  assert {
    condition = alltrue([
      for queue in concat(
        [
          aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive, aws_sqs_queue.poison,
        ], aws_sqs_queue.retry, [aws_sqs_queue.slow]
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
        mapping.batch_size == 10 && mapping.maximum_batching_window_in_seconds == 0 && mapping.scaling_config[0].maximum_concurrency == 50
      ])
      && aws_lambda_event_source_mapping.slow.batch_size == 100
      && aws_lambda_event_source_mapping.slow.maximum_batching_window_in_seconds == 1
      && aws_lambda_event_source_mapping.slow.scaling_config[0].maximum_concurrency == 50
      && contains(keys(aws_lambda_event_source_mapping.slow.tags), "gridpost:may-wait")
      && aws_lambda_event_source_mapping.fan_out.batch_size == 1
      && aws_lambda_event_source_mapping.fan_out.scaling_config[0].maximum_concurrency == 5
      && aws_lambda_event_source_mapping.redrive.batch_size == 1
      && aws_lambda_event_source_mapping.redrive.scaling_config[0].maximum_concurrency == 5
      && aws_lambda_event_source_mapping.redrive.enabled
      && aws_lambda_event_source_mapping.dead_letter.batch_size == 100
      && aws_lambda_event_source_mapping.dead_letter.scaling_config[0].maximum_concurrency == 10
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

  # They are the last copy of an event.
  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.dead_letters) == 0
    error_message = "dead letters are deleted, and no one asked for it"
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
      && aws_apigatewayv2_stage.publish[0].default_route_settings[0].throttling_rate_limit == 500
      && aws_apigatewayv2_stage.publish[0].default_route_settings[0].throttling_burst_limit == 500
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
    slow_window_seconds      = 20
  }

  assert {
    condition     = aws_sqs_queue.slow.visibility_timeout_seconds == 950
    error_message = "the slow queue hides for ${aws_sqs_queue.slow.visibility_timeout_seconds} s"
  }

  assert {
    condition = alltrue([
      for queue in concat([aws_sqs_queue.dispatch], aws_sqs_queue.retry) : queue.visibility_timeout_seconds == 930
    ])
    error_message = "Lambda would refuse a queue that hides for ${aws_sqs_queue.dispatch.visibility_timeout_seconds} s"
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
    account_concurrency     = 3000
    alarms                  = "ALL"
    dashboard               = true
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
      && aws_cloudwatch_metric_alarm.this["events-dropped"].namespace == "Gridpost/abcdefghijklmnopqrst"
      && jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets[0].properties.metrics[0][0] == "Gridpost/abcdefghijklmnopqrst"
    )
    error_message = "two deployments of one account and region share metrics and alarms"
  }

  # CloudWatch takes ten metrics for an alarm, and descriptions of 1,024 characters.
  assert {
    condition = (
      [for suffix, alarm in aws_cloudwatch_metric_alarm.this : length(alarm.metric_query) if startswith(suffix, "retry-late")] == [11, 11, 11, 4]
      && alltrue([
        for alarm in aws_cloudwatch_metric_alarm.this : length(alarm.metric_query) <= 11 && length(alarm.alarm_description) <= 1024
      ])
    )
    error_message = "an alarm is larger than CloudWatch takes"
  }
}

run "what_queues_may_use_fits_into_the_account" {
  command = plan

  variables {
    first_attempt_concurrency = 2
    retry_concurrency         = 2
    slow_concurrency          = 0
    retry_queue_count         = 1
    fan_out_concurrency       = 2
    dead_letter_concurrency   = 2
    redrive_concurrency       = 0
    account_concurrency       = 10
  }

  assert {
    condition     = local.concurrency_sum == 8 && aws_lambda_event_source_mapping.fan_out.scaling_config[0].maximum_concurrency == 2
    error_message = "the queues may use ${local.concurrency_terms}"
  }

  assert {
    condition = (
      module.dispatch.environment["GRIDPOST_SLOW_QUEUE_SENT_TO"] == "false" && aws_lambda_event_source_mapping.slow.enabled != false
      && aws_lambda_event_source_mapping.slow.scaling_config[0].maximum_concurrency == 2
      && module.dispatch.environment["GRIDPOST_SLOW_LISTENERS"] == "0"
    )
    error_message = "what the slow queue holds is not read any more, or more comes"
  }

  assert {
    condition = (
      !aws_lambda_event_source_mapping.redrive.enabled
      && aws_lambda_event_source_mapping.redrive.scaling_config[0].maximum_concurrency == 2
    )
    error_message = "redrives use concurrency that is not theirs, or ask for less than Lambda takes"
  }
}

run "concurrency_can_be_kept_for_publishes" {
  command = plan

  variables {
    ingest_reserved_concurrency = 200
  }

  assert {
    condition     = module.ingest.reserved_concurrency == 200 && local.concurrency_sum == 550 + 3 * 50 + 50 + 200 + 10 + 5 + 5
    error_message = "ingest keeps ${coalesce(module.ingest.reserved_concurrency, 0)} of ${local.concurrency_terms}"
  }
}
