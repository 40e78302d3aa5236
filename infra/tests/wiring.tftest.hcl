# Who is connected to whom, and what each function is told.

mock_provider "aws" {
  source = "./tests/mocks"

  # The URLs as AWS would give them: each queue compares its own with the one that the functions were told.
  override_resource {
    target = aws_sqs_queue.dispatch
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
    }
  }
  override_resource {
    target = aws_sqs_queue.retry[0]
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-0"
    }
  }
  override_resource {
    target = aws_sqs_queue.slow
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-slow"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-slow"
    }
  }
  override_resource {
    target = aws_sqs_queue.retry[1]
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-1"
    }
  }
  override_resource {
    target = aws_sqs_queue.slow[1]
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-1"
    }
  }
  override_resource {
    target = aws_sqs_queue.dead_letter
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-dead-letter"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter"
    }
  }
  override_resource {
    target = aws_sqs_queue.fan_out
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out"
    }
  }
  override_resource {
    target = aws_sqs_queue.redrive
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-redrive"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive"
    }
  }
  override_resource {
    target = aws_sqs_queue.poison
    values = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
    }
  }
  override_resource {
    target = aws_apigatewayv2_api.publish
    values = {
      id            = "publish1"
      api_endpoint  = "https://publish1.execute-api.eu-central-1.amazonaws.com"
      execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:publish1"
    }
  }
  override_resource {
    target = aws_apigatewayv2_api.manage
    values = {
      id            = "manage1"
      api_endpoint  = "https://manage1.execute-api.eu-central-1.amazonaws.com"
      execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:manage1"
    }
  }
  override_resource {
    target = module.ingest.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-ingest"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-ingest/invocations"
    }
  }
  override_resource {
    target = module.expand.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-expand"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-expand/invocations"
    }
  }
  override_resource {
    target = module.dispatch.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dispatch"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-dispatch/invocations"
    }
  }
  override_resource {
    target = module.dead_letter.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dead-letter"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-dead-letter/invocations"
    }
  }
  override_resource {
    target = module.redrive.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-redrive"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-redrive/invocations"
    }
  }
  override_resource {
    target = module.manage.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-manage"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-manage/invocations"
    }
  }
  override_resource {
    target = module.wake.aws_lambda_function.this
    values = {
      arn        = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-wake"
      invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2015-03-31/functions/gridpost-wake/invocations"
    }
  }
  override_resource {
    target = aws_iam_role.wake_schedule
    values = { arn = "arn:aws:iam::123456789012:role/gridpost-wake-schedule-eu-central-1" }
  }
}

variables {
  functions_dir     = "tests/functions"
  retry_queue_count = 2
}

run "queues_lead_to_their_functions" {
  command = apply

  assert {
    condition = (
      aws_lambda_event_source_mapping.dispatch.event_source_arn == local.dispatch_queue_arn
      && aws_lambda_event_source_mapping.dispatch.function_name == module.dispatch.arn
      && strcontains(module.dispatch.arn, "gridpost-dispatch")
    )
    error_message = "the dispatch queue leads to ${aws_lambda_event_source_mapping.dispatch.function_name}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.retry[*].event_source_arn == local.retry_queue_arns
      && alltrue([for mapping in aws_lambda_event_source_mapping.retry : mapping.function_name == module.dispatch.arn])
    )
    error_message = "the retry queues lead to ${jsonencode(aws_lambda_event_source_mapping.retry[*].function_name)}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.slow.event_source_arn == local.slow_queue_arn
      && aws_lambda_event_source_mapping.slow.function_name == module.dispatch.arn
    )
    error_message = "the slow queue leads to ${aws_lambda_event_source_mapping.slow.function_name}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.dead_letter.event_source_arn == local.dead_letter_queue_arn
      && aws_lambda_event_source_mapping.dead_letter.function_name == module.dead_letter.arn
      && strcontains(module.dead_letter.arn, "gridpost-dead-letter")
    )
    error_message = "the dead-letter queue leads to ${aws_lambda_event_source_mapping.dead_letter.function_name}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.fan_out.event_source_arn == local.fan_out_queue_arn
      && aws_lambda_event_source_mapping.fan_out.function_name == module.expand.arn
      && strcontains(module.expand.arn, "gridpost-expand")
    )
    error_message = "the fan-out queue leads to ${aws_lambda_event_source_mapping.fan_out.function_name}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.redrive.event_source_arn == local.redrive_queue_arn
      && aws_lambda_event_source_mapping.redrive.function_name == module.redrive.arn
      && strcontains(module.redrive.arn, "gridpost-redrive")
    )
    error_message = "the redrive queue leads to ${aws_lambda_event_source_mapping.redrive.function_name}"
  }

  # Without it one failing record would bring back the whole batch, delivered ones included.
  assert {
    condition = alltrue([
      for mapping in concat(
        [
          aws_lambda_event_source_mapping.dispatch, aws_lambda_event_source_mapping.dead_letter,
          aws_lambda_event_source_mapping.fan_out,
          aws_lambda_event_source_mapping.redrive,
        ],
        aws_lambda_event_source_mapping.retry,
      ) : mapping.function_response_types == toset(["ReportBatchItemFailures"])
    ])
    error_message = "a mapping does not take partial batch responses"
  }

  assert {
    condition = alltrue([
      for queue in concat(
        [aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive], aws_sqs_queue.retry
      ) :
      jsondecode(queue.redrive_policy) == {
        deadLetterTargetArn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison"
        maxReceiveCount     = 1000
      }
    ])
    error_message = "a queue does not redrive to the poison queue"
  }

  assert {
    condition     = length(aws_sqs_queue.retry) == 2 && aws_sqs_queue.retry[1].name == "gridpost-retry-1"
    error_message = "retry queues are ${jsonencode(aws_sqs_queue.retry[*].name)}"
  }
}

run "apis_lead_to_their_functions_by_explicit_routes" {
  command = apply

  assert {
    condition = (
      aws_apigatewayv2_integration.publish[0].integration_uri == module.ingest.invoke_arn
      && strcontains(module.ingest.invoke_arn, "gridpost-ingest")
      && aws_apigatewayv2_integration.publish[0].payload_format_version == "2.0"
    )
    error_message = "the publish API leads to ${aws_apigatewayv2_integration.publish[0].integration_uri}"
  }

  assert {
    condition = (
      aws_apigatewayv2_integration.manage.integration_uri == module.manage.invoke_arn
      && strcontains(module.manage.invoke_arn, "gridpost-manage")
      && aws_apigatewayv2_integration.manage.payload_format_version == "2.0"
    )
    error_message = "the manage API leads to ${aws_apigatewayv2_integration.manage.integration_uri}"
  }

  assert {
    condition = (
      { for route in aws_apigatewayv2_route.publish : route.route_key => "${route.api_id} ${route.target}" } ==
      {
        "POST /topics/{topic}/api/events" = "publish1 integrations/${aws_apigatewayv2_integration.publish[0].id}"
        "POST /topics/{topic}"            = "publish1 integrations/${aws_apigatewayv2_integration.publish[0].id}"
      }
    )
    error_message = "publish routes are ${jsonencode(values(aws_apigatewayv2_route.publish)[*].route_key)}"
  }

  assert {
    condition = (
      alltrue([for route in aws_apigatewayv2_route.publish : route.authorization_type == "NONE" && route.authorizer_id == null])
      && length(aws_apigatewayv2_authorizer.publish) == 0
    )
    error_message = "publishers with a key do not reach ingest"
  }

  assert {
    # docs/openapi.json is generated from the handler's routes. The two that no IAM identity is needed for say so there.
    condition = toset(values(aws_apigatewayv2_route.manage)[*].route_key) == toset(flatten([
      for path, item in jsondecode(file("${path.module}/../docs/openapi.json")).paths : [
        for method, operation in item : "${upper(method)} ${path}"
        if try(contains(operation.tags, "manage") && !can(operation.security), false)
      ]
    ]))
    error_message = "manage routes are ${jsonencode(values(aws_apigatewayv2_route.manage)[*].route_key)}"
  }

  assert {
    condition = alltrue([
      for route in aws_apigatewayv2_route.manage :
      route.authorization_type == "AWS_IAM" && route.api_id == "manage1"
      && route.target == "integrations/${aws_apigatewayv2_integration.manage.id}"
    ])
    error_message = "a route of the manage API can be called without IAM, or leads elsewhere"
  }

  # The one path of the manage API that needs no IAM: the token in its URL is checked by manage.
  assert {
    condition = toset([
      for route in aws_apigatewayv2_route.validation : "${route.route_key} ${route.authorization_type} ${route.api_id} ${route.target}"
      ]) == toset([
      for method in ["GET", "POST"] :
      "${method} /topics/{topic}/eventSubscriptions/{name}/validate NONE manage1 integrations/${aws_apigatewayv2_integration.manage.id}"
    ])
    error_message = "validation routes are ${jsonencode(aws_apigatewayv2_route.validation)}"
  }

  assert {
    condition = (
      aws_lambda_permission.publish[0].source_arn == "arn:aws:execute-api:eu-central-1:123456789012:publish1/*/*"
      && aws_lambda_permission.publish[0].function_name == "gridpost-ingest"
      && aws_lambda_permission.manage.source_arn == "arn:aws:execute-api:eu-central-1:123456789012:manage1/*/*"
      && aws_lambda_permission.manage.function_name == "gridpost-manage"
      && aws_lambda_permission.publish[0].principal == "apigateway.amazonaws.com"
      && aws_lambda_permission.manage.principal == "apigateway.amazonaws.com"
    )
    error_message = "an API may not invoke its function, or another API may"
  }
}

run "wake_runs_every_minute" {
  command = apply

  assert {
    condition = (
      aws_scheduler_schedule.wake.schedule_expression == "rate(1 minute)"
      && aws_scheduler_schedule.wake.flexible_time_window[0].mode == "OFF"
      && aws_scheduler_schedule.wake.target[0].arn == module.wake.arn
      && strcontains(module.wake.arn, "gridpost-wake")
      && aws_scheduler_schedule.wake.target[0].role_arn == "arn:aws:iam::123456789012:role/gridpost-wake-schedule-eu-central-1"
    )
    error_message = "the schedule is ${jsonencode(aws_scheduler_schedule.wake)}"
  }

  # What the scheduler hands over Lambda would try twice more, for six hours, if it were not told otherwise.
  assert {
    condition = (
      aws_lambda_function_event_invoke_config.wake.function_name == "gridpost-wake"
      && aws_lambda_function_event_invoke_config.wake.maximum_retry_attempts == 0
      && aws_lambda_function_event_invoke_config.wake.maximum_event_age_in_seconds == 60
    )
    error_message = "Lambda repeats wake by ${jsonencode(aws_lambda_function_event_invoke_config.wake)}"
  }
}

run "functions_are_told_what_they_need_and_no_more" {
  command = plan

  assert {
    condition = module.ingest.environment == tomap({
      GRIDPOST_LOG                     = "info"
      GRIDPOST_CONFIG_TABLE            = "gridpost-config"
      GRIDPOST_DISPATCH_QUEUE_URL      = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      GRIDPOST_FAN_OUT_QUEUE_URL       = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out"
      GRIDPOST_PAYLOAD_BUCKET          = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_STATE_TABLE             = "gridpost-state"
      GRIDPOST_INLINE_FAN_OUT          = "10000"
      GRIDPOST_LATENCY_METRICS         = "false"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = "262144"
      GRIDPOST_PUBLISH_AUTHORIZATION   = "KEYS"
      GRIDPOST_CONFIG_CACHE_MS         = "2000"
      GRIDPOST_CONFIG_STALE_SECONDS    = "60"
    })
    error_message = "ingest is told ${jsonencode(module.ingest.environment)}"
  }

  assert {
    condition = module.expand.environment == tomap({
      GRIDPOST_LOG                     = "info"
      GRIDPOST_DISPATCH_QUEUE_URL      = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      GRIDPOST_FAN_OUT_QUEUE_URL       = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out"
      GRIDPOST_POISON_QUEUE_URL        = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
      GRIDPOST_PAYLOAD_BUCKET          = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = "262144"
    })
    error_message = "expand is told ${jsonencode(module.expand.environment)}"
  }

  assert {
    condition = module.dispatch.environment == tomap({
      GRIDPOST_LOG                       = "info"
      GRIDPOST_CONFIG_TABLE              = "gridpost-config"
      GRIDPOST_STATE_TABLE               = "gridpost-state"
      GRIDPOST_DISPATCH_QUEUE_URL        = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      GRIDPOST_RETRY_QUEUE_URLS          = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-0,https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-1"
      GRIDPOST_RETRY_QUEUES_SENT_TO      = "2"
      GRIDPOST_SLOW_QUEUE_URL            = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-slow"
      GRIDPOST_SLOW_QUEUE_SENT_TO        = "true"
      GRIDPOST_DEAD_LETTER_QUEUE_URL     = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter"
      GRIDPOST_POISON_QUEUE_URL          = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
      GRIDPOST_PAYLOAD_BUCKET            = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_CONFIG_CACHE_MS           = "10000"
      GRIDPOST_CONFIG_STALE_SECONDS      = "60"
      GRIDPOST_DEAD_LETTER_DELAY_SECONDS = "300"
      GRIDPOST_ENDPOINT_ALLOWED_NETWORKS = ""
      GRIDPOST_ENDPOINT_ALLOWED_PORTS    = "80,443,1024-65535"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX   = "262144"
      GRIDPOST_RETRY_IN_FLIGHT_LIMIT     = "60000"
      GRIDPOST_SLOW_AFTER_MS             = "500"
      GRIDPOST_FIRST_ATTEMPT_LISTENERS   = "55"
      GRIDPOST_RETRY_LISTENERS           = "5"
      GRIDPOST_SLOW_LISTENERS            = "5"
      GRIDPOST_PROBATION_SECONDS         = "{}"
      GRIDPOST_VALIDATION_ORIGIN         = "eventgrid.azure.net"
      GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS   = "false"
      GRIDPOST_FAILED_RESPONSE_BYTES     = "0"
      GRIDPOST_LATENCY_METRICS           = "false"
    })
    error_message = "dispatch is told ${jsonencode(module.dispatch.environment)}"
  }

  assert {
    condition = module.dead_letter.environment == tomap({
      GRIDPOST_LOG                         = "info"
      GRIDPOST_CONFIG_TABLE                = "gridpost-config"
      GRIDPOST_DISPATCH_QUEUE_URL          = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      GRIDPOST_DEAD_LETTER_QUEUE_URL       = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter"
      GRIDPOST_POISON_QUEUE_URL            = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
      GRIDPOST_PAYLOAD_BUCKET              = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_CONFIG_CACHE_MS             = "2000"
      GRIDPOST_CONFIG_STALE_SECONDS        = "60"
      GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS = "14400"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX     = "262144"
    })
    error_message = "dead-letter is told ${jsonencode(module.dead_letter.environment)}"
  }

  assert {
    condition = module.redrive.environment == tomap({
      GRIDPOST_LOG                     = "info"
      GRIDPOST_CONFIG_TABLE            = "gridpost-config"
      GRIDPOST_STATE_TABLE             = "gridpost-state"
      GRIDPOST_DISPATCH_QUEUE_URL      = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      GRIDPOST_REDRIVE_QUEUE_URL       = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive"
      GRIDPOST_PAYLOAD_BUCKET          = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX = "262144"
    })
    error_message = "redrive is told ${jsonencode(module.redrive.environment)}"
  }

  assert {
    condition = module.manage.environment == tomap({
      GRIDPOST_LOG                       = "info"
      GRIDPOST_CONFIG_TABLE              = "gridpost-config"
      GRIDPOST_STATE_TABLE               = "gridpost-state"
      GRIDPOST_PAYLOAD_BUCKET            = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_RETRY_QUEUE_URLS          = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-0,https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-1"
      GRIDPOST_RETRY_QUEUES_SENT_TO      = "2"
      GRIDPOST_SLOW_QUEUE_URL            = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-slow"
      GRIDPOST_DEAD_LETTER_QUEUE_URL     = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter"
      GRIDPOST_FAN_OUT_QUEUE_URL         = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out"
      GRIDPOST_REDRIVE_QUEUE_URL         = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive"
      GRIDPOST_POISON_QUEUE_URL          = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
      GRIDPOST_CONFIG_CACHE_MS           = "2000"
      GRIDPOST_DISPATCH_CONFIG_CACHE_MS  = "10000"
      GRIDPOST_ENDPOINT_ALLOWED_NETWORKS = ""
      GRIDPOST_ENDPOINT_ALLOWED_PORTS    = "80,443,1024-65535"
      GRIDPOST_RESOURCE_DESTINATIONS     = ""
      GRIDPOST_DISPATCH_ARN              = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dispatch"
      GRIDPOST_VALIDATION_ORIGIN         = "eventgrid.azure.net"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX   = "262144"
      GRIDPOST_FAILED_RESPONSE_BYTES     = "0"
      GRIDPOST_PUBLISH_URL               = "https://publish1.execute-api.eu-central-1.amazonaws.com"
      GRIDPOST_MANAGE_URL                = "https://manage1.execute-api.eu-central-1.amazonaws.com"
      GRIDPOST_MANAGE_AUTHORIZATION      = "AWS_IAM"
      GRIDPOST_NAME_PREFIX               = "gridpost"
      GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS   = "false"
    })
    error_message = "manage is told ${jsonencode(module.manage.environment)}"
  }

  assert {
    condition = module.wake.environment == tomap({
      GRIDPOST_LOG                      = "info"
      GRIDPOST_STATE_TABLE              = "gridpost-state"
      GRIDPOST_CONFIG_TABLE             = "gridpost-config"
      GRIDPOST_PAYLOAD_BUCKET           = "gridpost-payloads-123456789012-eu-central-1"
      GRIDPOST_QUEUE_MESSAGE_BYTES_MAX  = "262144"
      GRIDPOST_RETRY_QUEUE_URLS         = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-0,https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-1"
      GRIDPOST_RETRY_QUEUES_SENT_TO     = "2"
      GRIDPOST_DISPATCH_CONFIG_CACHE_MS = "10000"
      GRIDPOST_CONFIG_STALE_SECONDS     = "60"
    })
    error_message = "wake is told ${jsonencode(module.wake.environment)}"
  }
}

run "settings_reach_the_functions" {
  command = plan

  variables {
    config_cache_ms             = 500
    dead_letter_delay_seconds   = 5
    dead_letter_give_up_seconds = 600
    dead_letter_topic           = "dead-letters"
    endpoint_allowed_networks   = ["127.0.0.0/8", "::1/128"]
    endpoint_allowed_ports      = ["443", "8443-8450"]
    inline_fan_out              = 0
    log_level                   = "warn,gridpost=debug"
    failed_response_bytes       = 256
    log_successful_attempts     = true
    latency_metrics             = true
    probation_seconds           = { Busy = 1, NotFound = 2 }
    queue_message_bytes_max     = 229376
    retry_in_flight_limit       = 0
    validation_origin           = "events.example.com"
  }

  assert {
    condition = (
      module.ingest.environment["GRIDPOST_CONFIG_CACHE_MS"] == "500"
      && alltrue([
        for function in [module.ingest, module.expand, module.dispatch, module.dead_letter, module.redrive] :
        function.environment["GRIDPOST_QUEUE_MESSAGE_BYTES_MAX"] == "229376"
      ])
      && module.ingest.environment["GRIDPOST_INLINE_FAN_OUT"] == "0"
      && module.ingest.environment["GRIDPOST_LOG"] == "warn,gridpost=debug"
      && module.dispatch.environment["GRIDPOST_DEAD_LETTER_DELAY_SECONDS"] == "5"
      && module.dispatch.environment["GRIDPOST_ENDPOINT_ALLOWED_NETWORKS"] == "127.0.0.0/8,::1/128"
      && module.dispatch.environment["GRIDPOST_ENDPOINT_ALLOWED_PORTS"] == "443,8443-8450"
      && module.dispatch.environment["GRIDPOST_PROBATION_SECONDS"] == "{\"Busy\":1,\"NotFound\":2}"
      && module.dispatch.environment["GRIDPOST_RETRY_IN_FLIGHT_LIMIT"] == "0"
      && module.dispatch.environment["GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS"] == "true"
      && module.manage.environment["GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS"] == "true"
      && module.dispatch.environment["GRIDPOST_FAILED_RESPONSE_BYTES"] == "256"
      && module.dispatch.environment["GRIDPOST_LATENCY_METRICS"] == "true"
      && module.ingest.environment["GRIDPOST_LATENCY_METRICS"] == "true"
      && module.dispatch.environment["GRIDPOST_VALIDATION_ORIGIN"] == "events.example.com"
      && module.dead_letter.environment["GRIDPOST_DEAD_LETTER_GIVE_UP_SECONDS"] == "600"
      && module.dead_letter.environment["GRIDPOST_DEAD_LETTER_TOPIC"] == "dead-letters"
      && module.manage.environment["GRIDPOST_ENDPOINT_ALLOWED_NETWORKS"] == "127.0.0.0/8,::1/128"
      && module.manage.environment["GRIDPOST_ENDPOINT_ALLOWED_PORTS"] == "443,8443-8450"
    )
    error_message = "a setting does not reach its function: ${jsonencode([module.ingest.environment, module.dispatch.environment, module.dead_letter.environment])}"
  }

  assert {
    condition = alltrue([
      for queue in concat(
        [
          aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive, aws_sqs_queue.poison,
        ], aws_sqs_queue.retry
      ) :
      queue.max_message_size == 229376
    ])
    error_message = "a queue takes other sizes than ingest packs"
  }
}

run "outputs_tell_where_everything_is" {
  command = apply

  assert {
    condition = (
      output.publish_url == "https://publish1.execute-api.eu-central-1.amazonaws.com"
      && output.manage_url == "https://manage1.execute-api.eu-central-1.amazonaws.com"
      && output.region == "eu-central-1"
      && output.name_prefix == "gridpost"
      && output.dead_letter_bucket == "gridpost-dead-letters-123456789012-eu-central-1"
      && output.config_table == "gridpost-config"
      && output.state_table == "gridpost-state"
    )
    error_message = "an output is wrong: ${output.publish_url} ${output.manage_url} ${output.dead_letter_bucket}"
  }

  assert {
    condition = output.function_names == {
      ingest      = "gridpost-ingest", expand = "gridpost-expand", dispatch = "gridpost-dispatch"
      dead-letter = "gridpost-dead-letter", redrive = "gridpost-redrive", manage = "gridpost-manage", wake = "gridpost-wake"
    }
    error_message = "function names are ${jsonencode(output.function_names)}"
  }

  assert {
    condition = jsonencode(output.queue_urls) == jsonencode({
      dispatch    = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
      retry       = [for shard in [0, 1] : "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-${shard}"]
      slow        = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-slow"
      dead_letter = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter"
      fan_out     = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out"
      redrive     = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive"
      poison      = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison"
    })
    error_message = "queue URLs are ${jsonencode(output.queue_urls)}"
  }

  assert {
    condition = (
      strcontains(output.publish_command, "'https://publish1.execute-api.eu-central-1.amazonaws.com/topics/demo/api/events'")
      && strcontains(output.publish_command, "-H \"aeg-sas-key: $GRIDPOST_KEY\"")
    )
    error_message = "the publish command is ${output.publish_command}"
  }
}

run "publishers_may_be_iam_principals" {
  command = plan

  variables {
    publish_authorization = "AWS_IAM"
  }

  assert {
    condition = (
      alltrue([for route in aws_apigatewayv2_route.publish : route.authorization_type == "AWS_IAM" && route.authorizer_id == null])
      && module.ingest.environment["GRIDPOST_PUBLISH_AUTHORIZATION"] == "AWS_IAM"
    )
    error_message = "a route of the publish API can be called without IAM, or ingest does not know"
  }
}

run "publishers_may_have_tokens" {
  command = apply

  variables {
    publish_authorization = "JWT"
    publish_jwt_issuer    = "https://login.example.com/v2.0"
    publish_jwt_audience  = ["gridpost", "other"]
  }

  assert {
    condition = alltrue([
      for route in aws_apigatewayv2_route.publish :
      route.authorization_type == "JWT" && route.authorizer_id == aws_apigatewayv2_authorizer.publish[0].id
    ])
    error_message = "a route of the publish API can be called without a token"
  }

  assert {
    condition = (
      aws_apigatewayv2_authorizer.publish[0].authorizer_type == "JWT"
      && aws_apigatewayv2_authorizer.publish[0].jwt_configuration[0].issuer == "https://login.example.com/v2.0"
      && aws_apigatewayv2_authorizer.publish[0].jwt_configuration[0].audience == toset(["gridpost", "other"])
      && aws_apigatewayv2_authorizer.publish[0].identity_sources == toset(["$request.header.Authorization"])
      && module.ingest.environment["GRIDPOST_PUBLISH_AUTHORIZATION"] == "JWT"
    )
    error_message = "the authorizer is ${jsonencode(aws_apigatewayv2_authorizer.publish[0])}"
  }
}

run "publishers_may_come_by_a_function_url" {
  command = apply

  variables {
    publish_front_door = "FUNCTION_URL"
  }

  override_resource {
    target = aws_cloudformation_stack.publish_function_url
    values = { outputs = { Url = "https://publish1.lambda-url.eu-central-1.on.aws/" } }
  }

  assert {
    condition = (
      length(aws_apigatewayv2_api.publish) == 0 && length(aws_apigatewayv2_route.publish) == 0
      && length(aws_apigatewayv2_stage.publish) == 0 && length(aws_lambda_permission.publish) == 0
    )
    error_message = "there are two front doors"
  }

  assert {
    condition = (
      output.publish_url == "https://publish1.lambda-url.eu-central-1.on.aws"
      && module.manage.environment["GRIDPOST_PUBLISH_URL"] == output.publish_url
    )
    error_message = "publish_url is ${output.publish_url}"
  }

  # Invoking the function is granted for calls by its URL, never for all.
  assert {
    condition = jsondecode(aws_cloudformation_stack.publish_function_url[0].template_body).Resources == {
      Url = {
        Type       = "AWS::Lambda::Url"
        Properties = { TargetFunctionArn = "gridpost-ingest", AuthType = "NONE", InvokeMode = "BUFFERED" }
      }
      CallUrl = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action              = "lambda:InvokeFunctionUrl"
          FunctionName        = module.ingest.arn
          FunctionUrlAuthType = "NONE"
          Principal           = "*"
        }
      }
      InvokeByUrl = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action                = "lambda:InvokeFunction"
          FunctionName          = module.ingest.arn
          InvokedViaFunctionUrl = true
          Principal             = "*"
        }
      }
    }
    error_message = "the stack is ${aws_cloudformation_stack.publish_function_url[0].template_body}"
  }
}

run "a_function_url_leads_to_the_live_version" {
  command = apply

  variables {
    publish_front_door = "FUNCTION_URL"
    versions           = true
  }

  assert {
    condition = (
      jsondecode(aws_cloudformation_stack.publish_function_url[0].template_body).Resources.Url.Properties.Qualifier == "live"
      && jsondecode(aws_cloudformation_stack.publish_function_url[0].template_body).Resources.InvokeByUrl.Properties.FunctionName == module.ingest.arn
    )
    error_message = "the stack is ${aws_cloudformation_stack.publish_function_url[0].template_body}"
  }
}

run "a_function_url_may_ask_for_iam" {
  command = apply

  variables {
    publish_front_door    = "FUNCTION_URL"
    publish_authorization = "AWS_IAM"
  }

  assert {
    condition = (
      jsondecode(aws_cloudformation_stack.publish_function_url[0].template_body).Resources == {
        Url = {
          Type       = "AWS::Lambda::Url"
          Properties = { TargetFunctionArn = "gridpost-ingest", AuthType = "AWS_IAM", InvokeMode = "BUFFERED" }
        }
      }
      && module.ingest.environment["GRIDPOST_PUBLISH_AUTHORIZATION"] == "AWS_IAM"
    )
    error_message = "the function URL lets others in than IAM's principals, or ingest does not know"
  }
}

run "a_retry_queue_is_emptied_before_it_goes" {
  command = apply

  variables {
    retry_queues_sent_to = 1
  }

  assert {
    condition = (
      length(aws_lambda_event_source_mapping.retry) == 2
      && alltrue([
        for module in [module.dispatch, module.manage, module.wake] :
        module.environment["GRIDPOST_RETRY_QUEUES_SENT_TO"] == "1"
        && length(split(",", module.environment["GRIDPOST_RETRY_QUEUE_URLS"])) == 2
      ])
    )
    error_message = "a queue that is being emptied is not read, or still sent to"
  }
}

run "no_more_retry_queues_are_sent_to_than_there_are" {
  command = plan

  variables {
    retry_queues_sent_to = 3
  }

  expect_failures = [var.retry_queues_sent_to]
}
