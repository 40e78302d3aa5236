# Every value that must not be deployed is refused at plan time. A run names all the variables that must refuse: Terraform fails
# it if one of them does not, and if anything else does.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir = "tests/functions"
}

run "refuses_what_is_below_its_range" {
  command = plan

  variables {
    config_cache_ms             = -1
    config_stale_seconds        = -1
    dispatch_config_cache_ms    = -1
    dead_letter_batch_size      = 0
    dead_letter_delay_seconds   = -1
    dead_letter_give_up_seconds = 59
    dead_letter_window_seconds  = -1
    dispatch_timeout_seconds    = 59
    failed_response_bytes       = -1
    first_attempt_concurrency   = 1
    inline_fan_out              = -1
    log_retention_days          = 0
    memory_mb                   = { dispatch = 127 }
    probation_seconds           = { Busy = -1 }
    publish_burst_limit         = 0
    publish_rate_limit          = 0
    queue_message_bytes_max     = 229375
    late_response_share         = -0.1
    slow_batch_size             = 0
    slow_window_seconds         = -1
    slow_after_ms               = 99
    retry_concurrency           = 1
    slow_concurrency            = 1
    retry_in_flight_limit       = -1
    retry_queue_count           = 0
    fan_out_concurrency         = 1
    dead_letter_concurrency     = 1
    redrive_concurrency         = 1
    ingest_reserved_concurrency = 1
    account_concurrency         = 9
    alarm_failed_publishes      = 0
    alarm_due_retries           = -1
  }

  expect_failures = [
    var.config_cache_ms, var.config_stale_seconds, var.dispatch_config_cache_ms, var.dead_letter_batch_size, var.dead_letter_delay_seconds, var.dead_letter_give_up_seconds,
    var.dead_letter_window_seconds, var.dispatch_timeout_seconds, var.failed_response_bytes, var.first_attempt_concurrency, var.inline_fan_out,
    var.log_retention_days, var.memory_mb, var.probation_seconds, var.publish_burst_limit, var.publish_rate_limit,
    var.queue_message_bytes_max, var.slow_batch_size, var.late_response_share, var.slow_window_seconds, var.slow_after_ms, var.retry_concurrency, var.slow_concurrency, var.retry_in_flight_limit, var.retry_queue_count,
    var.fan_out_concurrency, var.dead_letter_concurrency, var.redrive_concurrency, var.ingest_reserved_concurrency,
    var.account_concurrency, var.alarm_failed_publishes, var.alarm_due_retries,
  ]
}

run "refuses_what_is_above_its_range" {
  command = plan

  variables {
    config_cache_ms             = 10001
    config_stale_seconds        = 3601
    dispatch_config_cache_ms    = 60001
    dead_letter_batch_size      = 10001
    dead_letter_delay_seconds   = 901
    dead_letter_give_up_seconds = 604801
    dead_letter_window_seconds  = 301
    dispatch_timeout_seconds    = 901
    failed_response_bytes       = 1025
    first_attempt_concurrency   = 1001
    inline_fan_out              = 100001
    log_retention_days          = 3654
    memory_mb                   = { dispatch = 10241 }
    name_prefix                 = "abcdefghijklmnopqrstu"
    probation_seconds           = { Busy = 86401 }
    publish_burst_limit         = 50001
    publish_rate_limit          = 100001
    queue_message_bytes_max     = 1048577
    late_response_share         = 1.1
    slow_batch_size             = 1001
    slow_window_seconds         = 21
    slow_after_ms               = 30001
    retry_concurrency           = 1001
    slow_concurrency            = 1001
    retry_in_flight_limit       = 120001
    retry_queue_count           = 33
  }

  expect_failures = [
    var.config_cache_ms, var.config_stale_seconds, var.dispatch_config_cache_ms, var.dead_letter_batch_size, var.dead_letter_delay_seconds, var.dead_letter_give_up_seconds,
    var.dead_letter_window_seconds, var.dispatch_timeout_seconds, var.failed_response_bytes, var.first_attempt_concurrency, var.inline_fan_out,
    var.log_retention_days, var.memory_mb, var.name_prefix, var.probation_seconds, var.publish_burst_limit, var.publish_rate_limit,
    var.queue_message_bytes_max, var.slow_batch_size, var.late_response_share, var.slow_window_seconds, var.slow_after_ms, var.retry_concurrency, var.slow_concurrency, var.retry_in_flight_limit, var.retry_queue_count,
  ]
}

run "refuses_fractions" {
  command = plan

  variables {
    config_cache_ms             = 1.5
    config_stale_seconds        = 1.5
    dispatch_config_cache_ms    = 1.5
    dead_letter_batch_size      = 1.5
    dead_letter_delay_seconds   = 1.5
    dead_letter_give_up_seconds = 60.5
    dead_letter_window_seconds  = 1.5
    dispatch_timeout_seconds    = 60.5
    failed_response_bytes       = 1.5
    first_attempt_concurrency   = 2.5
    inline_fan_out              = 1.5
    memory_mb                   = { dispatch = 128.5 }
    probation_seconds           = { Busy = 1.5 }
    publish_burst_limit         = 1.5
    queue_message_bytes_max     = 229376.5
    retry_concurrency           = 2.5
    slow_concurrency            = 2.5
    retry_in_flight_limit       = 1.5
    retry_queue_count           = 1.5
  }

  expect_failures = [
    var.config_cache_ms, var.config_stale_seconds, var.dispatch_config_cache_ms, var.dead_letter_batch_size, var.dead_letter_delay_seconds, var.dead_letter_give_up_seconds,
    var.dead_letter_window_seconds, var.dispatch_timeout_seconds, var.failed_response_bytes, var.first_attempt_concurrency, var.inline_fan_out,
    var.memory_mb, var.probation_seconds, var.publish_burst_limit, var.queue_message_bytes_max, var.retry_concurrency, var.slow_concurrency,
    var.retry_in_flight_limit, var.retry_queue_count,
  ]
}

run "refuses_words_it_does_not_know" {
  command = plan

  variables {
    architecture          = "riscv64"
    log_level             = "verbose"
    log_retention_days    = 31
    manage_authorization  = "JWT"
    memory_mb             = { dispach = 512 }
    probation_seconds     = { BadRequest = 10 }
    publish_authorization = "NONE"
    publish_front_door    = "ALB"
    alarms                = "SOME"
    live_versions         = { dispatch = "newest" }
    tags                  = { "aws:team" = "reserved" }
  }

  expect_failures = [
    var.architecture, var.log_level, var.log_retention_days, var.manage_authorization, var.memory_mb, var.probation_seconds,
    var.publish_authorization, var.publish_front_door, var.tags, var.alarms, var.live_versions,
  ]
}

run "refuses_what_has_another_form" {
  command = plan

  variables {
    alarm_topic_arns          = ["arn:aws:sqs:eu-central-1:123456789012:ops"]
    aws_endpoint_url          = "http://127.0.0.1:4566/"
    dead_letter_bucket_arns   = ["arn:aws:s3:::mine/*"]
    dead_letter_topic         = "dead letters"
    endpoint_allowed_networks = ["10.0.0.1"]
    endpoint_allowed_ports    = ["443", "https"]
    functions_dir             = "tests/functions/"
    name_prefix               = "Grid_Post"
    publish_jwt_audience      = [""]
    publish_jwt_issuer        = "http://login.example.com"
    account                   = { id = "123456789012", region = "Frankfurt" }
    validation_origin         = "https://example.com"
  }

  expect_failures = [
    var.alarm_topic_arns, var.aws_endpoint_url, var.dead_letter_bucket_arns, var.dead_letter_topic,
    var.account, var.endpoint_allowed_networks, var.endpoint_allowed_ports, var.functions_dir, var.name_prefix, var.publish_jwt_audience,
    var.publish_jwt_issuer, var.validation_origin,
  ]
}

run "refuses_a_resource_that_is_none" {
  command = plan

  variables {
    resource_destinations = ["arn:aws:s3:::bucket"]
  }

  expect_failures = [var.resource_destinations]
}

run "refuses_every_resource_of_an_account_and_kinds_at_once" {
  command = plan

  variables {
    resource_destinations = ["arn:aws:*:eu-central-1:123456789012:q"]
  }

  expect_failures = [var.resource_destinations]
}

run "refuses_a_resource_in_another_region" {
  command = plan

  variables {
    resource_destinations = ["arn:aws:sqs:us-east-1:123456789012:q"]
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_alarms_to_a_topic_in_another_region" {
  command = plan

  variables {
    alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:alarms"]
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_a_key_of_another_region" {
  command = plan

  variables {
    kms_key_arns = { sqs = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_a_former_key_of_another_region" {
  command = plan

  variables {
    kms_former_key_arns = ["arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"]
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_a_buckets_key_of_another_region" {
  command = plan

  variables {
    dead_letter_bucket_key_arns = ["arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"]
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_tags_that_iam_does_not_take" {
  command = plan

  variables {
    tags = { team = "R&D, billing" }
  }

  expect_failures = [var.tags]
}

run "refuses_a_prefix_that_s3_reserves" {
  command = plan

  variables {
    name_prefix = "sthree-orders"
  }

  expect_failures = [var.name_prefix]
}

run "takes_tags_in_any_script_and_memory_for_each_function" {
  command = plan

  variables {
    tags      = { "größe:team" = "Müller + Söhne @ büro/2 = ok" }
    memory_mb = { intake = 1024, wake = 512 }
  }
}

run "refuses_more_resources_than_an_environment_holds" {
  command = plan

  variables {
    resource_destinations = [for number in range(50) : "arn:aws:sqs:eu-central-1:123456789012:queue-${number}"]
  }

  expect_failures = [var.resource_destinations]
}

run "refuses_a_port_above_the_last" {
  command = plan

  variables {
    endpoint_allowed_ports = ["443", "1024-65536"]
  }

  expect_failures = [var.endpoint_allowed_ports]
}

run "refuses_a_range_of_ports_that_runs_backwards" {
  command = plan

  variables {
    endpoint_allowed_ports = ["9000-8000"]
  }

  expect_failures = [var.endpoint_allowed_ports]
}

run "refuses_no_port_at_all" {
  command = plan

  variables {
    endpoint_allowed_ports = []
  }

  expect_failures = [var.endpoint_allowed_ports]
}

run "refuses_a_prefix_that_ends_in_a_hyphen_and_a_sixth_alarm_topic" {
  command = plan

  variables {
    name_prefix      = "grid-"
    alarm_topic_arns = [for n in range(6) : "arn:aws:sns:eu-central-1:123456789012:ops-${n}"]
  }

  expect_failures = [var.name_prefix, var.alarm_topic_arns]
}

run "refuses_an_open_manage_api_on_aws" {
  command = plan

  variables {
    manage_authorization = "NONE"
  }

  expect_failures = [aws_apigatewayv2_api.manage]
}

run "refuses_tokens_of_nobody" {
  command = plan

  variables {
    publish_authorization = "JWT"
    publish_jwt_issuer    = "https://login.example.com/v2.0"
  }

  expect_failures = [aws_apigatewayv2_api.publish]
}

run "refuses_an_issuer_that_nobody_is_asked_for" {
  command = plan

  variables {
    publish_jwt_issuer   = "https://login.example.com/v2.0"
    publish_jwt_audience = ["gridpost"]
  }

  expect_failures = [aws_apigatewayv2_api.publish]
}

run "refuses_tokens_at_a_function_url" {
  command = plan

  variables {
    publish_front_door    = "FUNCTION_URL"
    publish_authorization = "JWT"
    publish_jwt_issuer    = "https://login.example.com/v2.0"
    publish_jwt_audience  = ["gridpost"]
  }

  expect_failures = [aws_cloudformation_stack.publish_function_url]
}

run "refuses_a_large_dead_letter_batch_without_a_window" {
  command = plan

  variables {
    dead_letter_batch_size     = 11
    dead_letter_window_seconds = 0
  }

  expect_failures = [aws_lambda_event_source_mapping.dead_letter]
}

run "takes_both_ends_of_each_range" {
  command = plan

  variables {
    config_cache_ms             = 0
    dead_letter_batch_size      = 10
    dead_letter_delay_seconds   = 0
    dead_letter_give_up_seconds = 60
    dead_letter_window_seconds  = 0
    dispatch_timeout_seconds    = 60
    failed_response_bytes       = 1024
    first_attempt_concurrency   = 2
    inline_fan_out              = 0
    memory_mb                   = { ingest = 128, dispatch = 10240 }
    name_prefix                 = "g1"
    probation_seconds           = { Busy = 0, InvalidFunctionDestination = 86400 }
    publish_burst_limit         = 50000
    publish_rate_limit          = 100000
    queue_message_bytes_max     = 229376
    retry_concurrency           = 1000
    retry_in_flight_limit       = 120000
    retry_queue_count           = 32
    account_concurrency         = 32074
    fan_out_concurrency         = 5
    log_level                   = "warn,gridpost_aws::sqs=trace"
    endpoint_allowed_networks   = ["10.0.0.0/8", "fd00::/8"]
    endpoint_allowed_ports      = ["1", "65535", "1-65535"]
    validation_origin           = "events.example.com"
  }

  assert {
    condition     = length(aws_sqs_queue.retry) == 32 && aws_sqs_queue.dispatch.name == "g1-dispatch"
    error_message = "there are ${length(aws_sqs_queue.retry)} retry queues"
  }
}

run "refuses_more_concurrency_than_the_account_has" {
  command = plan

  variables {
    first_attempt_concurrency = 779
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

# Every mapping at Lambda's least makes ten, without a slow queue: publishes would be refused while the queues are worked off.
run "refuses_to_leave_nothing_for_publishes" {
  command = plan

  variables {
    first_attempt_concurrency = 2
    retry_concurrency         = 2
    slow_concurrency          = 0
    retry_queue_count         = 1
    fan_out_concurrency       = 2
    dead_letter_concurrency   = 2
    redrive_concurrency       = 2
    account_concurrency       = 10
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

# A small account has nothing to reserve: Lambda keeps more than all of it free.
run "refuses_to_reserve_in_a_small_account" {
  command = plan

  variables {
    first_attempt_concurrency   = 2
    retry_concurrency           = 2
    slow_concurrency            = 0
    retry_queue_count           = 1
    fan_out_concurrency         = 2
    dead_letter_concurrency     = 2
    redrive_concurrency         = 0
    account_concurrency         = 12
    ingest_reserved_concurrency = 2
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_to_reserve_what_lambda_keeps_free" {
  command = plan

  variables {
    account_concurrency         = 1000
    first_attempt_concurrency   = 2
    retry_concurrency           = 2
    slow_concurrency            = 2
    ingest_reserved_concurrency = 901
  }

  expect_failures = [aws_lambda_event_source_mapping.dispatch]
}

run "refuses_names_of_no_key_role_network_or_host" {
  command = plan

  variables {
    permissions_boundary_arn    = "boundary"
    iam_path                    = "platform"
    kms_key_arns                = { s3 = "alias/mine" }
    kms_former_key_arns         = ["alias/mine"]
    dead_letter_bucket_key_arns = ["alias/mine"]
    vpc                         = { subnet_ids = [], security_group_ids = ["sg-1"] }
    functions_bucket            = { name = "releases", sha256 = { ingest = "abc" } }
    publish_domain              = { name = "Events", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/1" }
    manage_domain               = { name = "manage.example.com", certificate_arn = "certificate" }
  }

  expect_failures = [
    var.permissions_boundary_arn, var.iam_path, var.kms_key_arns, var.kms_former_key_arns, var.dead_letter_bucket_key_arns, var.vpc,
    var.functions_bucket, var.publish_domain, var.manage_domain,
  ]
}

run "refuses_a_domain_for_a_function_url_and_a_certificate_of_elsewhere" {
  command = plan

  variables {
    publish_front_door = "FUNCTION_URL"
    publish_domain     = { name = "events.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/1" }
    manage_domain      = { name = "manage.example.com", certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/1" }
  }

  expect_failures = [aws_apigatewayv2_domain_name.this["publish"], aws_apigatewayv2_domain_name.this["manage"]]
}

run "refuses_an_api_that_nothing_leads_to" {
  command = plan

  variables {
    default_endpoints = false
  }

  expect_failures = [aws_apigatewayv2_api.publish, aws_apigatewayv2_api.manage]
}

run "endpoint_secrets_of_no_service_that_keeps_secrets" {
  command = plan

  variables {
    endpoint_secrets = { "arn:aws:s3:::bucket" = ["id.example"] }
  }

  expect_failures = [var.endpoint_secrets]
}

run "endpoint_secrets_for_any_host" {
  command = plan

  variables {
    endpoint_secrets = { "arn:aws:ssm:eu-central-1:123456789012:parameter/p" = ["*"] }
  }

  expect_failures = [var.endpoint_secrets]
}

run "an_entra_client_with_its_secret_written_out" {
  command = plan

  variables {
    endpoint_entra_client = { client_id = "c", secret = "hush" }
  }

  expect_failures = [var.endpoint_entra_client]
}

run "signatures_to_any_host" {
  command = plan

  variables {
    endpoint_signed_hosts = { "*.execute-api.eu-central-1.amazonaws.com" = ["arn:aws:execute-api:eu-central-1:123456789012:a1/*"] }
  }

  expect_failures = [var.endpoint_signed_hosts]
}

run "signatures_to_a_service_of_aws" {
  command = plan

  variables {
    endpoint_signed_hosts = { "dynamodb.eu-central-1.amazonaws.com" = ["arn:aws:execute-api:eu-central-1:123456789012:a1/*"] }
  }

  expect_failures = [var.endpoint_signed_hosts]
}

run "signatures_for_what_is_no_api_and_no_function" {
  command = plan

  variables {
    endpoint_signed_hosts = { "api.example" = ["arn:aws:sqs:eu-central-1:123456789012:orders"] }
  }

  expect_failures = [var.endpoint_signed_hosts]
}

run "signatures_for_every_api" {
  command = plan

  variables {
    endpoint_signed_hosts = { "api.example" = ["arn:aws:execute-api:eu-central-1:123456789012:*"] }
  }

  expect_failures = [var.endpoint_signed_hosts]
}

run "more_hosts_than_an_environment_holds" {
  command = plan

  variables {
    endpoint_signed_hosts = { for index in range(60) : "host-${index}.with-a-long-name.example" => ["arn:aws:lambda:eu-central-1:123456789012:function:f"] }
  }

  expect_failures = [var.endpoint_signed_hosts]
}

run "a_role_for_any_host" {
  command = plan

  variables {
    endpoint_roles = { "arn:aws:iam::123456789012:role/r" = ["*"] }
  }

  expect_failures = [var.endpoint_roles]
}

run "a_role_that_is_a_user" {
  command = plan

  variables {
    endpoint_roles = { "arn:aws:iam::123456789012:user/u" = ["api.example"] }
  }

  expect_failures = [var.endpoint_roles]
}

run "any_role" {
  command = plan

  variables {
    endpoint_roles = { "arn:aws:iam::123456789012:role/*" = ["api.example"] }
  }

  expect_failures = [var.endpoint_roles]
}

run "tokens_for_any_host" {
  command = plan

  variables {
    endpoint_audiences = { "https://api.example" = ["*"] }
  }

  expect_failures = [var.endpoint_audiences]
}

run "tokens_for_any_audience" {
  command = plan

  variables {
    endpoint_audiences = { "*" = ["api.example"] }
  }

  expect_failures = [var.endpoint_audiences]
}

run "signed_requests_to_the_manage_api_s_domain" {
  command = plan

  variables {
    manage_domain = { name = "manage.example.com", certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/c" }
    endpoint_signed_hosts = {
      "Manage.example.com" = ["arn:aws:execute-api:eu-central-1:123456789012:a1b2c3/prod/POST/x"]
    }
  }

  expect_failures = [aws_apigatewayv2_api.manage]
}
