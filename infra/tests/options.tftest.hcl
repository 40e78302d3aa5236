# What an estate may ask of a deployment: keys, roles and tags of its own, functions out of a bucket, networks, domains, versions.

mock_provider "aws" {
  source = "./tests/mocks"

  override_resource {
    target = aws_apigatewayv2_domain_name.this
    values = {
      id = "events.example.com"
      domain_name_configuration = {
        target_domain_name = "d-1.execute-api.eu-central-1.amazonaws.com"
        hosted_zone_id     = "Z1"
      }
    }
  }
}

variables {
  functions_dir     = "tests/functions"
  retry_queue_count = 1
}

run "keys_of_ones_own_encrypt_and_may_be_used_by_the_functions_through_their_services" {
  command = plan

  variables {
    kms_key_arns = {
      dynamodb = "arn:aws:kms:eu-central-1:123456789012:key/d"
      s3       = "arn:aws:kms:eu-central-1:123456789012:key/b"
      sqs      = "arn:aws:kms:eu-central-1:123456789012:key/q"
      logs     = "arn:aws:kms:eu-central-1:123456789012:key/l"
    }
  }

  assert {
    condition = (
      alltrue([
        for table in [aws_dynamodb_table.config, aws_dynamodb_table.state] :
        table.server_side_encryption[0].enabled && table.server_side_encryption[0].kms_key_arn == "arn:aws:kms:eu-central-1:123456789012:key/d"
      ])
      && alltrue([
        for queue in concat(
          [aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive, aws_sqs_queue.poison],
          aws_sqs_queue.retry, [aws_sqs_queue.slow],
        ) : queue.kms_master_key_id == "arn:aws:kms:eu-central-1:123456789012:key/q"
      ])
      && alltrue([
        for encryption in [
          aws_s3_bucket_server_side_encryption_configuration.dead_letters, aws_s3_bucket_server_side_encryption_configuration.payloads,
        ] :
        one(one(encryption.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
        && one(one(encryption.rule).apply_server_side_encryption_by_default).kms_master_key_id == "arn:aws:kms:eu-central-1:123456789012:key/b"
        && one(encryption.rule).bucket_key_enabled
      ])
      && aws_cloudwatch_log_group.access["manage"].kms_key_id == "arn:aws:kms:eu-central-1:123456789012:key/l"
    )
    error_message = "something is encrypted by another key"
  }

  assert {
    condition = alltrue([
      for policy in [
        module.ingest.policy, module.dispatch.policy, module.dead_letter.policy, module.redrive.policy, module.manage.policy,
        module.wake.policy,
        ] : [
        for statement in jsondecode(policy).Statement : statement if startswith(statement.Sid, "UseKeyOf")
        ] == [
        {
          Sid       = "UseKeyOfDynamodb", Effect = "Allow"
          Action    = ["kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/d"]
          Condition = { StringEquals = { "kms:ViaService" = "dynamodb.eu-central-1.amazonaws.com" } }
        },
        {
          Sid       = "UseKeyOfS3", Effect = "Allow", Action = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/b"]
          Condition = { StringEquals = { "kms:ViaService" = "s3.eu-central-1.amazonaws.com" } }
        },
        {
          Sid       = "UseKeyOfSqs", Effect = "Allow", Action = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/q"]
          Condition = { StringEquals = { "kms:ViaService" = "sqs.eu-central-1.amazonaws.com" } }
        },
      ]
    ])
    error_message = "a function may not use the keys, or may elsewhere"
  }

  assert {
    condition = [
      for statement in jsondecode(module.expand.policy).Statement : statement.Sid if startswith(statement.Sid, "UseKeyOf")
    ] == ["UseKeyOfS3", "UseKeyOfSqs"]
    error_message = "expand reads and writes no table, and may not use a table's key"
  }
}

# What was written before a key was changed keeps the old one.
run "former_keys_still_decrypt_and_do_no_more" {
  command = plan

  variables {
    kms_key_arns        = { s3 = "arn:aws:kms:eu-central-1:123456789012:key/new" }
    kms_former_key_arns = ["arn:aws:kms:eu-central-1:123456789012:key/old"]
  }

  assert {
    condition = alltrue([
      for policy in [
        module.ingest.policy, module.expand.policy, module.dispatch.policy, module.dead_letter.policy, module.redrive.policy,
        module.manage.policy, module.wake.policy,
        ] : [
        for statement in jsondecode(policy).Statement : statement if strcontains(jsonencode(statement.Action), "kms:")
        ] == [
        {
          Sid       = "UseKeyOfS3", Effect = "Allow", Action = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/new"]
          Condition = { StringEquals = { "kms:ViaService" = "s3.eu-central-1.amazonaws.com" } }
        },
        {
          Sid       = "ReadByFormerKeysOfS3", Effect = "Allow", Action = ["kms:Decrypt"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/old"]
          Condition = { StringEquals = { "kms:ViaService" = "s3.eu-central-1.amazonaws.com" } }
        },
        {
          Sid       = "ReadByFormerKeysOfSqs", Effect = "Allow", Action = ["kms:Decrypt"]
          Resource  = ["arn:aws:kms:eu-central-1:123456789012:key/old"]
          Condition = { StringEquals = { "kms:ViaService" = "sqs.eu-central-1.amazonaws.com" } }
        },
      ]
    ])
    error_message = "a function can't read what a former key has encrypted, or may do more with it"
  }
}

run "dead_letters_go_to_further_buckets_with_keys_of_their_own" {
  command = plan

  variables {
    dead_letter_bucket_arns     = ["arn:aws:s3:::other.bucket"]
    dead_letter_bucket_key_arns = ["arn:aws:kms:eu-central-1:123456789012:key/other"]
  }

  assert {
    condition = [
      for policy in [
        module.dead_letter.policy, module.redrive.policy, module.manage.policy, module.ingest.policy, module.expand.policy,
        module.dispatch.policy, module.wake.policy,
        ] : [
        for statement in jsondecode(policy).Statement :
        "${join(",", statement.Action)} ${join(",", statement.Resource)} ${statement.Condition.StringEquals["kms:ViaService"]}"
        if strcontains(jsonencode(statement.Action), "kms:")
      ]
      ] == [
      ["kms:GenerateDataKey arn:aws:kms:eu-central-1:123456789012:key/other s3.eu-central-1.amazonaws.com"],
      ["kms:Decrypt arn:aws:kms:eu-central-1:123456789012:key/other s3.eu-central-1.amazonaws.com"],
      ["kms:Decrypt arn:aws:kms:eu-central-1:123456789012:key/other s3.eu-central-1.amazonaws.com"],
      [], [], [], [],
    ]
    error_message = "dead-letter can't write to the bucket, or redrive and manage can't read it, or others may"
  }
}

run "roles_are_bounded_and_everything_is_tagged" {
  command = plan

  variables {
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    iam_path                 = "/platform/"
    tags                     = { team = "events" }
  }

  assert {
    condition = (
      aws_iam_role.wake_schedule.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
      && aws_iam_role.wake_schedule.path == "/platform/"
      && local.function_settings.permissions_boundary_arn == "arn:aws:iam::123456789012:policy/boundary"
      && local.function_settings.iam_path == "/platform/"
    )
    error_message = "a role is without its boundary or path"
  }

  assert {
    condition = alltrue([
      for tags in [
        aws_sqs_queue.dispatch.tags, aws_dynamodb_table.config.tags, aws_s3_bucket.payloads.tags, aws_apigatewayv2_api.manage.tags,
        aws_lambda_event_source_mapping.dispatch.tags, aws_cloudwatch_metric_alarm.this["late"].tags, aws_iam_role.wake_schedule.tags,
        tomap(local.function_settings.tags),
      ] : tags == tomap({ application = "gridpost", "gridpost:deployment" = "gridpost", team = "events" })
    ])
    error_message = "something is without its tags"
  }
}

run "functions_of_a_directory_may_have_pinned_hashes" {
  command = plan

  variables {
    functions_sha256 = { for name in ["ingest", "dispatch"] : name => filebase64sha256("tests/functions/${name}/bootstrap.zip") }
  }

  assert {
    condition = (
      local.packages["ingest"].file == "${path.root}/tests/functions/ingest/bootstrap.zip"
      && local.packages["ingest"].sha256 == filebase64sha256("tests/functions/ingest/bootstrap.zip")
      && local.packages["wake"].sha256 == null && local.packages["ingest"].bucket == null
    )
    error_message = "functions come from ${jsonencode(local.packages)}"
  }
}

run "functions_may_come_from_a_bucket" {
  command = plan

  variables {
    functions_dir = null
    functions_bucket = {
      name       = "releases"
      key_prefix = "gridpost/1.0.0/arm64/"
      sha256     = { for name in ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"] : name => base64sha256(name) }
    }
  }

  assert {
    condition = (
      jsonencode(local.packages["dead-letter"]) == jsonencode({
        bucket = "releases", file = null, key = "gridpost/1.0.0/arm64/dead-letter.zip", sha256 = base64sha256("dead-letter")
      })
      && length(local.packages) == 7
    )
    error_message = "functions come from ${jsonencode(local.packages)}"
  }
}

run "what_calls_endpoints_may_be_in_a_network_of_ones_own" {
  command = plan

  variables {
    vpc                       = { subnet_ids = ["subnet-1", "subnet-2"], security_group_ids = ["sg-1"] }
    endpoint_allowed_networks = ["10.1.0.0/16"]
  }

  assert {
    condition = alltrue([
      for name, function in {
        dispatch    = module.dispatch, manage = module.manage, ingest = module.ingest, expand = module.expand
        dead-letter = module.dead_letter, redrive = module.redrive, wake = module.wake
      } :
      try(join(" ", [for statement in jsondecode(function.network_policy).Statement : statement.Sid]), "")
      == (contains(["dispatch", "manage"], name) ? "ManageNetworkInterfaces NotByTheFunctionItself" : "")
    ])
    error_message = "a function can't have its network interfaces, or needs none and may"
  }

  assert {
    condition = [
      for statement in jsondecode(module.dispatch.network_policy).Statement : statement.Condition if statement.Sid == "NotByTheFunctionItself" && statement.Effect == "Deny"
    ] == [{ ArnEquals = { "lambda:SourceFunctionArn" = ["arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dispatch"] } }]
    error_message = "dispatch's own program may make network interfaces"
  }

  assert {
    condition = (
      module.dispatch.vpc.subnet_ids == tolist(["subnet-1", "subnet-2"]) && module.manage.vpc.security_group_ids == tolist(["sg-1"])
      && alltrue([for function in [module.ingest, module.expand, module.dead_letter, module.redrive, module.wake] : function.vpc == null])
    )
    error_message = "functions are in ${jsonencode(module.dispatch.vpc)}"
  }
}

run "domains_of_ones_own_lead_to_the_roots_of_the_apis" {
  command = apply

  variables {
    publish_domain = {
      name            = "events.example.com"
      certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/1"
      zone_id         = "Z0"
    }
    manage_domain = {
      name            = "manage.example.com"
      certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/2"
    }
    default_endpoints = false
  }

  # The queues' URLs are not what this is about, and a mocked one is not theirs.
  override_resource {
    target = aws_sqs_queue.dispatch
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch" }
  }
  override_resource {
    target = aws_sqs_queue.retry
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-retry-0", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0" }
  }
  override_resource {
    target = aws_sqs_queue.slow
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-slow", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-slow" }
  }
  override_resource {
    target = aws_sqs_queue.dead_letter
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dead-letter", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-dead-letter" }
  }
  override_resource {
    target = aws_sqs_queue.fan_out
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-fan-out", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out" }
  }
  override_resource {
    target = aws_sqs_queue.redrive
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-redrive" }
  }
  override_resource {
    target = aws_sqs_queue.poison
    values = { url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-poison", arn = "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison" }
  }
  override_resource {
    target = aws_apigatewayv2_api.publish
    values = { execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:publish1" }
  }
  override_resource {
    target = aws_apigatewayv2_api.manage
    values = { execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:manage1" }
  }
  override_resource {
    target = aws_cloudwatch_log_group.access
    values = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/vendedlogs/gridpost-manage-api" }
  }

  assert {
    condition = (
      output.publish_url == "https://events.example.com" && output.manage_url == "https://manage.example.com"
      && output.publish_host == "events.example.com"
      && module.manage.environment["GRIDPOST_PUBLISH_URL"] == "https://events.example.com"
    )
    error_message = "publish_url is ${output.publish_url}, manage_url ${output.manage_url}"
  }

  # A base path would stand in front of the paths that the functions know.
  assert {
    condition     = alltrue([for mapping in aws_apigatewayv2_api_mapping.this : mapping.api_mapping_key == null])
    error_message = "a domain is mapped below its root"
  }

  assert {
    condition = (
      aws_apigatewayv2_api.publish[0].disable_execute_api_endpoint && aws_apigatewayv2_api.manage.disable_execute_api_endpoint
      && keys(aws_route53_record.this) == ["publish"]
      && one(aws_route53_record.this["publish"].alias).name == "d-1.execute-api.eu-central-1.amazonaws.com"
      && output.domain_targets["manage"].name == "d-1.execute-api.eu-central-1.amazonaws.com"
    )
    error_message = "names lead elsewhere: ${jsonencode(output.domain_targets)}"
  }
}

run "versions_are_invoked_by_their_alias" {
  command = plan

  variables {
    versions              = true
    live_versions         = { dispatch = "41" }
    resource_destinations = ["arn:aws:sqs:eu-central-1:123456789012:orders"]
  }

  assert {
    condition = (
      aws_lambda_permission.manage.qualifier == "live" && aws_lambda_permission.publish[0].qualifier == "live"
      && aws_lambda_function_event_invoke_config.wake.qualifier == "live"
      && jsondecode(aws_iam_role_policy.wake_schedule.policy).Statement[0].Resource == "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-wake:live"
      && module.manage.environment["GRIDPOST_DISPATCH_ARN"] == "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dispatch:live"
      && module.dispatch.live_version == "41" && module.dispatch.qualifier == "live"
    )
    error_message = "something is invoked, or may be, beside the alias"
  }
}

run "a_rollout_leads_the_aliases_that_terraform_leaves_alone" {
  command = plan

  variables {
    versions = true
    rollout  = true
  }

  assert {
    condition = (
      aws_lambda_permission.manage.qualifier == "live" && module.dispatch.qualifier == "live"
      && jsondecode(aws_iam_role_policy.wake_schedule.policy).Statement[0].Resource == "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-wake:live"
    )
    error_message = "something is invoked, or may be, beside the alias"
  }
}

run "every_function_is_traced_where_that_is_wanted" {
  command = plan

  variables {
    tracing = true
  }

  assert {
    condition     = alltrue([for name, function in local.functions : strcontains(function.policy, "xray:PutTraceSegments")])
    error_message = "a function can't send its traces"
  }
}

run "who_calls_manage_is_logged_and_publishes_where_that_is_wanted" {
  command = plan

  variables {
    publish_access_logs = true
  }

  assert {
    condition = (
      aws_cloudwatch_log_group.access["manage"].name == "/aws/vendedlogs/gridpost-manage-api"
      && length(aws_apigatewayv2_stage.manage.access_log_settings) == 1 && length(aws_apigatewayv2_stage.publish[0].access_log_settings) == 1
      && jsondecode(aws_apigatewayv2_stage.manage.access_log_settings[0].format).userArn == "$context.identity.userArn"
    )
    error_message = "calls of the manage API leave no trail"
  }
}

run "publishes_are_not_logged_by_default" {
  command = plan

  assert {
    condition     = keys(aws_cloudwatch_log_group.access) == ["manage"] && length(aws_apigatewayv2_stage.publish[0].access_log_settings) == 0
    error_message = "every publish is logged"
  }
}

run "the_printed_command_shows_what_publishers_are_asked_for" {
  command = plan

  variables {
    publish_authorization = "AWS_IAM"
  }

  assert {
    condition     = strcontains(local.publish_credentials["AWS_IAM"], "aws:amz:eu-central-1:execute-api") && strcontains(local.publish_credentials["KEYS"], "aeg-sas-key: $GRIDPOST_KEY")
    error_message = "the command shows ${jsonencode(local.publish_credentials)}"
  }
}

run "dead_letters_go_when_their_owner_says" {
  command = plan

  variables {
    dead_letter_retention_days = 90
  }

  assert {
    condition = (
      aws_s3_bucket_lifecycle_configuration.dead_letters[0].rule[0].status == "Enabled"
      && one(aws_s3_bucket_lifecycle_configuration.dead_letters[0].rule[0].expiration).days == 90
    )
    error_message = "dead letters stay longer than their owner may keep them"
  }
}

run "ingest_asks_for_the_secret_of_what_stands_in_front" {
  command = plan

  variables {
    publish_public_url   = "https://events.example.com"
    origin_secret_sha256 = [sha256("old"), sha256("new")]
  }

  assert {
    condition = (
      module.ingest.environment["GRIDPOST_ORIGIN_SECRET_SHA256"] == "${sha256("old")},${sha256("new")}"
      && module.manage.environment["GRIDPOST_PUBLISH_URL"] == "https://events.example.com"
      && output.publish_url == "https://events.example.com"
      && alltrue([
        for function in [module.expand, module.dispatch, module.manage, module.wake] :
        !contains(keys(function.environment), "GRIDPOST_ORIGIN_SECRET_SHA256")
      ])
    )
    error_message = "ingest has ${jsonencode(module.ingest.environment)}"
  }
}

run "refuses_a_secret_in_place_of_its_digest" {
  command = plan

  variables {
    publish_public_url   = "https://events.example.com"
    origin_secret_sha256 = ["secret"]
  }

  expect_failures = [var.origin_secret_sha256]
}

run "refuses_a_secret_without_the_address_that_shows_it" {
  command = plan

  variables {
    origin_secret_sha256 = [sha256("new")]
  }

  expect_failures = [var.origin_secret_sha256]
}

run "refuses_an_address_with_a_path_and_a_retention_of_no_days" {
  command = plan

  variables {
    publish_public_url         = "https://events.example.com/"
    dead_letter_retention_days = 0
  }

  expect_failures = [var.publish_public_url, var.dead_letter_retention_days]
}
