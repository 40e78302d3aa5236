# What each role may do, all of it: a permission more fails these tests as one less does.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir     = "tests/functions"
  retry_queue_count = 2
}

run "ingest_reads_configuration_and_writes_queues_and_payloads" {
  command = plan

  assert {
    condition = jsondecode(module.ingest.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid       = "ReadConfig", Effect = "Allow"
          Action    = ["dynamodb:GetItem", "dynamodb:Query"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*", "KEYS#*"] } }
        },
        {
          Sid    = "EnqueueDeliveries", Effect = "Allow"
          Action = ["sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out",
          ]
        },
        {
          Sid    = "StorePayloads", Effect = "Allow"
          Action = ["s3:PutObject"]
          Resource = [
            "arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*",
            "arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/publishes/*",
          ]
        },
        {
          Sid       = "RecordKeyedPublishes", Effect = "Allow"
          Action    = ["dynamodb:PutItem"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["PUBLISH#*"] } }
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-ingest:*"]
        },
      ]
    }
    error_message = "ingest's policy is ${module.ingest.policy}"
  }
}

run "expand_consumes_what_ingest_has_stored_and_reads_no_configuration" {
  command = plan

  assert {
    condition = jsondecode(module.expand.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid      = "ConsumeFanOuts", Effect = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out"]
        },
        {
          Sid    = "EnqueueDeliveries", Effect = "Allow"
          Action = ["sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison",
          ]
        },
        {
          Sid      = "TakePublishes", Effect = "Allow"
          Action   = ["s3:GetObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/publishes/*"]
        },
        {
          Sid      = "SeeThatPublishesAreGone", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1"]
        },
        {
          Sid      = "StorePayloads", Effect = "Allow"
          Action   = ["s3:PutObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-expand:*"]
        },
      ]
    }
    error_message = "expand's policy is ${module.expand.policy}"
  }
}

run "dispatch_consumes_three_kinds_of_queue_and_cannot_reach_dead_letters_or_configuration_writes" {
  command = plan

  assert {
    condition = jsondecode(module.dispatch.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid    = "ConsumeAndHideDeliveries", Effect = "Allow"
          Action = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-slow",
          ]
        },
        {
          Sid    = "EnqueueRetriesAndEnds", Effect = "Allow"
          Action = ["sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-slow",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-dead-letter",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison",
          ]
        },
        {
          Sid       = "ReadConfig", Effect = "Allow"
          Action    = ["dynamodb:GetItem", "dynamodb:Query"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*", "SECRETS#*"] } }
        },
        {
          Sid      = "KeepState", Effect = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state"]
        },
        {
          Sid      = "TakeAndReleasePayloads", Effect = "Allow"
          Action   = ["s3:GetObject", "s3:PutObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*"]
        },
        {
          Sid      = "SeeThatPayloadsAreGone", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-dispatch:*"]
        },
      ]
    }
    error_message = "dispatch's policy is ${module.dispatch.policy}"
  }
}

run "dispatch_may_send_to_and_ask_for_exactly_the_resources_that_are_named" {
  command = plan

  variables {
    resource_destinations = [
      "arn:aws:sqs:eu-central-1:123456789012:orders-*",
      "arn:aws:lambda:eu-central-1:123456789012:function:f:live",
      "arn:aws:sqs:eu-central-1:210987654321:theirs.fifo",
      "arn:aws:sns:eu-central-1:123456789012:t",
      "arn:aws:kinesis:eu-central-1:123456789012:stream/s",
      "arn:aws:events:eu-central-1:123456789012:event-bus/b",
    ]
  }

  assert {
    condition = [
      for statement in jsondecode(module.dispatch.policy).Statement : statement if startswith(statement.Sid, "DeliverTo")
      ] == [
      {
        Sid      = "DeliverToEventBuses", Effect = "Allow", Action = ["events:PutEvents", "events:DescribeEventBus"]
        Resource = ["arn:aws:events:eu-central-1:123456789012:event-bus/b"]
      },
      {
        Sid      = "DeliverToStreams", Effect = "Allow", Action = ["kinesis:PutRecords", "kinesis:DescribeStreamSummary"]
        Resource = ["arn:aws:kinesis:eu-central-1:123456789012:stream/s"]
      },
      {
        Sid      = "DeliverToFunctions", Effect = "Allow", Action = ["lambda:InvokeFunction"]
        Resource = ["arn:aws:lambda:eu-central-1:123456789012:function:f:live"]
      },
      {
        Sid      = "DeliverToTopics", Effect = "Allow", Action = ["sns:Publish", "sns:GetTopicAttributes"]
        Resource = ["arn:aws:sns:eu-central-1:123456789012:t"]
      },
      {
        Sid = "DeliverToQueues", Effect = "Allow", Action = ["sqs:SendMessage", "sqs:GetQueueAttributes"]
        Resource = [
          "arn:aws:sqs:eu-central-1:123456789012:orders-*", "arn:aws:sqs:eu-central-1:210987654321:theirs.fifo",
        ]
      },
    ]
    error_message = "dispatch's policy is ${module.dispatch.policy}"
  }

  assert {
    condition     = endswith(local.dispatch_program, "dispatch-resources")
    error_message = "dispatch runs ${local.dispatch_program}"
  }

  assert {
    condition     = startswith(module.manage.environment["GRIDPOST_RESOURCE_DESTINATIONS"], "arn:aws:sqs:eu-central-1:123456789012:orders-*,arn:aws:lambda:")
    error_message = "manage knows of ${module.manage.environment["GRIDPOST_RESOURCE_DESTINATIONS"]}"
  }

  assert {
    condition = [
      for statement in jsondecode(module.manage.policy).Statement : statement if statement.Sid == "CheckResources"
      ] == [
      {
        Sid      = "CheckResources", Effect = "Allow", Action = ["lambda:InvokeFunction"]
        Resource = ["arn:aws:lambda:eu-central-1:123456789012:function:gridpost-dispatch"]
      },
    ]
    error_message = "manage's policy is ${module.manage.policy}"
  }
}

run "the_two_that_call_endpoints_may_read_exactly_the_secrets_that_are_named" {
  command = plan

  variables {
    endpoint_secrets = {
      "arn:aws:secretsmanager:eu-central-1:123456789012:secret:orders-AbCdEf" = ["id.example"]
      "arn:aws:ssm:eu-central-1:123456789012:parameter/gridpost/client"       = ["id.example"]
    }
    endpoint_entra_client = {
      client_id = "c0ffee", secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:entra-AbCdEf"
    }
  }

  assert {
    condition = alltrue([
      for policy in [module.dispatch.policy, module.manage.policy] : [
        for statement in jsondecode(policy).Statement : statement if startswith(statement.Sid, "ReadEndpoint")
        ] == [
        {
          Sid = "ReadEndpointSecrets", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"]
          Resource = [
            "arn:aws:secretsmanager:eu-central-1:123456789012:secret:orders-AbCdEf",
            "arn:aws:secretsmanager:eu-central-1:123456789012:secret:entra-AbCdEf",
          ]
        },
        {
          Sid      = "ReadEndpointParameters", Effect = "Allow", Action = ["ssm:GetParameter"]
          Resource = ["arn:aws:ssm:eu-central-1:123456789012:parameter/gridpost/client"]
        },
      ]
    ])
    error_message = "dispatch's policy is ${module.dispatch.policy}, manage's ${module.manage.policy}"
  }
}

run "the_two_that_call_endpoints_may_sign_and_prove_exactly_what_is_named" {
  command = plan

  variables {
    endpoint_signed_hosts = {
      "a1b2.execute-api.eu-central-1.amazonaws.com" = ["arn:aws:execute-api:eu-central-1:123456789012:a1b2/prod/POST/orders"]
      "f0.lambda-url.eu-central-1.on.aws"           = ["arn:aws:lambda:eu-central-1:123456789012:function:orders"]
    }
    endpoint_roles     = { "arn:aws:iam::123456789012:role/partner" = ["api.partner.example"] }
    endpoint_audiences = { "api://AzureADTokenExchange" = ["login.microsoftonline.com"] }
  }

  assert {
    condition = alltrue([
      for policy in [module.dispatch.policy, module.manage.policy] : [
        for statement in jsondecode(policy).Statement : statement
        if contains(["execute-api", "sts"], split(":", statement.Action[0])[0]) || strcontains(statement.Sid, "Signed")
        ] == [
        {
          Sid      = "InvokeSignedApis", Effect = "Allow", Action = ["execute-api:Invoke"]
          Resource = ["arn:aws:execute-api:eu-central-1:123456789012:a1b2/prod/POST/orders"]
        },
        {
          Sid      = "CallSignedFunctionUrls", Effect = "Allow", Action = ["lambda:InvokeFunctionUrl"]
          Resource = ["arn:aws:lambda:eu-central-1:123456789012:function:orders"]
        },
        {
          Sid       = "InvokeSignedFunctions", Effect = "Allow", Action = ["lambda:InvokeFunction"]
          Resource  = ["arn:aws:lambda:eu-central-1:123456789012:function:orders"]
          Condition = { Bool = { "lambda:InvokedViaFunctionUrl" = "true" } }
        },
        {
          Sid      = "AssumeEndpointRoles", Effect = "Allow", Action = ["sts:AssumeRole"]
          Resource = ["arn:aws:iam::123456789012:role/partner"]
        },
        {
          Sid      = "GetEndpointTokens", Effect = "Allow", Action = ["sts:GetWebIdentityToken"]
          Resource = ["*"]
          Condition = {
            "ForAllValues:StringEquals" = { "sts:IdentityTokenAudience" = ["api://AzureADTokenExchange"] }
            NumericLessThanEquals       = { "sts:DurationSeconds" = "300" }
          }
        },
      ]
    ])
    error_message = "dispatch's policy is ${module.dispatch.policy}, manage's ${module.manage.policy}"
  }

  assert {
    condition = alltrue([
      for environment in [module.dispatch.environment, module.manage.environment] :
      jsondecode(environment["GRIDPOST_ENDPOINT_IDENTITIES"]) == {
        own       = ["a1b2.execute-api.eu-central-1.amazonaws.com", "f0.lambda-url.eu-central-1.on.aws"]
        roles     = { "arn:aws:iam::123456789012:role/partner" = ["api.partner.example"] }
        audiences = { "api://AzureADTokenExchange" = ["login.microsoftonline.com"] }
      }
    ])
    error_message = "dispatch has ${jsonencode(module.dispatch.environment)}"
  }
}

run "without_named_identities_none_is_there" {
  command = plan

  assert {
    condition = alltrue([
      for function in [module.dispatch, module.manage] :
      !contains(keys(function.environment), "GRIDPOST_ENDPOINT_IDENTITIES")
      && !strcontains(function.policy, "\"sts:") && !strcontains(function.policy, "InvokeFunctionUrl")
    ])
    error_message = "dispatch's policy is ${module.dispatch.policy}"
  }
}

run "without_resources_the_small_program_is_deployed" {
  command = plan

  assert {
    condition     = local.dispatch_program == "dispatch" && module.manage.environment["GRIDPOST_RESOURCE_DESTINATIONS"] == ""
    error_message = "dispatch runs ${local.dispatch_program}"
  }
}

run "dead_letter_writes_dead_letters_and_reads_none" {
  command = plan

  variables {
    dead_letter_bucket_arns = ["arn:aws:s3:::other.bucket"]
  }

  assert {
    condition = jsondecode(module.dead_letter.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid      = "ConsumeAndHideDeadLetters", Effect = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-dead-letter"]
        },
        {
          Sid      = "TellOrPutAside", Effect = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch", "arn:aws:sqs:eu-central-1:123456789012:gridpost-poison"]
        },
        {
          Sid       = "ReadConfig", Effect = "Allow"
          Action    = ["dynamodb:GetItem", "dynamodb:Query"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*"] } }
        },
        {
          Sid    = "WriteDeadLetters", Effect = "Allow"
          Action = ["s3:PutObject"]
          Resource = [
            "arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1/*",
            "arn:aws:s3:::other.bucket/*",
          ]
        },
        {
          Sid      = "TakeAndReleasePayloads", Effect = "Allow"
          Action   = ["s3:GetObject", "s3:PutObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*"]
        },
        {
          Sid      = "SeeThatPayloadsAreGone", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-dead-letter:*"]
        },
      ]
    }
    error_message = "dead-letter's policy is ${module.dead_letter.policy}"
  }
}

run "redrive_reads_dead_letters_and_writes_none" {
  command = plan

  variables {
    dead_letter_bucket_arns = ["arn:aws:s3:::other.bucket"]
  }

  assert {
    condition = jsondecode(module.redrive.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid      = "ConsumeAndHideRedrives", Effect = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-redrive"]
        },
        {
          Sid      = "SendAgain", Effect = "Allow"
          Action   = ["sqs:SendMessage"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch", "arn:aws:sqs:eu-central-1:123456789012:gridpost-redrive"]
        },
        {
          Sid       = "ReadConfig", Effect = "Allow"
          Action    = ["dynamodb:GetItem"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*"] } }
        },
        {
          Sid      = "KeepRedrives", Effect = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
          Resource = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state"]
        },
        {
          Sid    = "ReadDeadLetters", Effect = "Allow"
          Action = ["s3:GetObject"]
          Resource = [
            "arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1/*",
            "arn:aws:s3:::other.bucket/*",
          ]
        },
        {
          Sid      = "FindDeadLetters", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1", "arn:aws:s3:::other.bucket"]
        },
        {
          Sid      = "StorePayloads", Effect = "Allow"
          Action   = ["s3:PutObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-redrive:*"]
        },
      ]
    }
    error_message = "redrive's policy is ${module.redrive.policy}"
  }
}

run "manage_writes_configuration_and_handles_what_waits" {
  command = plan

  assert {
    condition = jsondecode(module.manage.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid = "KeepConfig", Effect = "Allow"
          Action = [
            "dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
            "dynamodb:ConditionCheckItem",
          ]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*", "SECRETS#*", "KEYS#*", "TOPICS"] } }
        },
        {
          Sid      = "FindAndEndWhatWaits", Effect = "Allow"
          Action   = ["dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"]
          Resource = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state"]
        },
        {
          Sid      = "FindWaiting", Effect = "Allow"
          Action   = ["dynamodb:Query"]
          Resource = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state/index/waiting"]
        },
        {
          Sid      = "HandlePoison", Effect = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
          Resource = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-poison"]
        },
        {
          Sid    = "ShowHidden", Effect = "Allow"
          Action = ["sqs:ChangeMessageVisibility", "sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-slow",
          ]
        },
        {
          Sid    = "SendBack", Effect = "Allow"
          Action = ["sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-dead-letter",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-redrive",
          ]
        },
        {
          Sid      = "ReadAndPurgeDeadLetters", Effect = "Allow"
          Action   = ["s3:GetObject", "s3:DeleteObject"]
          Resource = ["arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1/*"]
        },
        {
          Sid      = "FindDeadLetters", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1"]
        },
        {
          Sid      = "CountPublishes", Effect = "Allow"
          Action   = ["s3:GetObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/publishes/*"]
        },
        {
          Sid      = "SeeThatPublishesAreGone", Effect = "Allow"
          Action   = ["s3:ListBucket"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1"]
        },
        {
          Sid    = "ReadTheJournal", Effect = "Allow"
          Action = ["logs:FilterLogEvents", "logs:StartQuery"]
          Resource = [
            "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-ingest*",
            "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-dispatch*",
            "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-dead-letter*",
            "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-redrive*",
            "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-manage*",
          ]
        },
        {
          Sid      = "FindTheJournal", Effect = "Allow"
          Action   = ["logs:DescribeLogGroups", "logs:GetQueryResults"]
          Resource = ["*"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-manage:*"]
        },
      ]
    }
    error_message = "manage's policy is ${module.manage.policy}"
  }
}

run "manage_reads_the_log_of_aws_sources_where_there_is_one" {
  command = plan

  variables {
    aws_sources = true
  }

  assert {
    condition = anytrue([
      for statement in jsondecode(module.manage.policy).Statement :
      contains(statement.Resource, "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-intake*")
      if statement.Sid == "ReadTheJournal"
    ])
    error_message = "manage's policy is ${module.manage.policy}"
  }
}

run "wake_takes_parked_deliveries_to_the_retry_queues" {
  command = plan

  assert {
    condition = jsondecode(module.wake.policy) == {
      Version = "2012-10-17"
      Statement = [
        {
          Sid      = "TakeParkedDeliveries", Effect = "Allow"
          Action   = ["dynamodb:Query", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"]
          Resource = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-state"]
        },
        {
          Sid       = "ReadPauses", Effect = "Allow"
          Action    = ["dynamodb:GetItem"]
          Resource  = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
          Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#*"] } }
        },
        {
          Sid    = "EnqueueRetries", Effect = "Allow"
          Action = ["sqs:SendMessage"]
          Resource = [
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-0",
            "arn:aws:sqs:eu-central-1:123456789012:gridpost-retry-1",
          ]
        },
        {
          Sid      = "StoreLargeEvents", Effect = "Allow"
          Action   = ["s3:PutObject"]
          Resource = ["arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/deliveries/*"]
        },
        {
          Sid      = "WriteOwnLogs", Effect = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-wake:*"]
        },
      ]
    }
    error_message = "wake's policy is ${module.wake.policy}"
  }
}

run "the_scheduler_may_invoke_wake_alone_and_only_for_this_account" {
  command = plan

  assert {
    condition = jsondecode(aws_iam_role_policy.wake_schedule.policy).Statement == [{
      Sid      = "InvokeWake", Effect = "Allow"
      Action   = "lambda:InvokeFunction"
      Resource = "arn:aws:lambda:eu-central-1:123456789012:function:gridpost-wake"
    }]
    error_message = "the schedule's policy is ${aws_iam_role_policy.wake_schedule.policy}"
  }

  assert {
    condition = jsondecode(aws_iam_role.wake_schedule.assume_role_policy).Statement == [{
      Sid       = "SchedulerOfThisAccount", Effect = "Allow"
      Principal = { Service = "scheduler.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = {
        StringEquals = {
          "aws:SourceAccount" = "123456789012"
          "aws:SourceArn"     = "arn:aws:scheduler:eu-central-1:123456789012:schedule-group/default"
        }
      }
    }]
    error_message = "the schedule's trust is ${aws_iam_role.wake_schedule.assume_role_policy}"
  }
}

# Access keys open topics: ingest knows publishers by them, where publishers are asked for them. Secrets go to endpoints, so
# that the function which the internet calls has no use for them.
run "access_keys_and_secrets_are_read_by_those_who_need_them" {
  command = plan

  variables {
    publish_authorization = "AWS_IAM"
  }

  assert {
    condition = jsonencode({
      for name, policy in {
        ingest = module.ingest.policy, expand = module.expand.policy, dispatch = module.dispatch.policy
        dead   = module.dead_letter.policy, redrive = module.redrive.policy, manage = module.manage.policy
        wake   = module.wake.policy
        } : name => flatten([
          for statement in jsondecode(policy).Statement :
          try(statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"], ["*"])
          if anytrue([for resource in statement.Resource : strcontains(resource, ":table/gridpost-config")])
      ])
      }) == jsonencode({
      ingest   = ["TOPIC#*"]
      expand   = []
      dispatch = ["TOPIC#*", "SECRETS#*"]
      dead     = ["TOPIC#*"]
      redrive  = ["TOPIC#*"]
      manage   = ["TOPIC#*", "SECRETS#*", "KEYS#*", "TOPICS"]
      wake     = ["TOPIC#*"]
    })
    error_message = "a function may read access keys or secrets that it has no use for, or not those that it needs"
  }
}

# AWS forces a wildcard on two that read the journal. A log stream's name ends in one, since Lambda makes the streams, and so do
# the objects of a bucket.
run "no_role_has_a_wildcard" {
  command = plan

  assert {
    condition = alltrue(flatten([
      for policy in [
        module.ingest.policy, module.expand.policy, module.dispatch.policy, module.dead_letter.policy, module.redrive.policy,
        module.manage.policy, module.wake.policy,
      ] :
      [
        for statement in jsondecode(policy).Statement : [
          for action in statement.Action : !strcontains(action, "*")
        ]
      ]
    ]))
    error_message = "a role may take every action of a service"
  }

  # What is behind a wildcard is a log group of Gridpost's own, or objects of a bucket.
  assert {
    condition = alltrue(flatten([
      for policy in [
        module.ingest.policy, module.expand.policy, module.dispatch.policy, module.dead_letter.policy, module.redrive.policy,
        module.manage.policy, module.wake.policy,
      ] :
      [
        for statement in jsondecode(policy).Statement : [
          for resource in statement.Resource :
          statement.Action[0] == "logs:DescribeLogGroups"
          || !endswith(resource, "*")
          || can(regex("^arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/gridpost-[a-z-]+:?\\*$", resource))
          || can(regex("^arn:aws:s3:::gridpost-(payloads|dead-letters)-123456789012-eu-central-1/([a-z-]+/)?\\*$", resource))
        ]
      ]
    ]))
    error_message = "a role reaches further than log streams of its own and objects of the deployment's buckets"
  }
}

run "queues_and_buckets_refuse_plain_http" {
  command = plan

  assert {
    condition = alltrue([
      for queue in concat(
        [
          aws_sqs_queue.dispatch, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out, aws_sqs_queue.redrive, aws_sqs_queue.poison,
        ], aws_sqs_queue.retry, [aws_sqs_queue.slow]
      ) :
      jsondecode(queue.policy) == {
        Version = "2012-10-17"
        Statement = [{
          Sid       = "DenyPlainHttp", Effect = "Deny", Principal = "*", Action = "sqs:*"
          Resource  = "arn:aws:sqs:eu-central-1:123456789012:${queue.name}"
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        }]
      }
    ])
    error_message = "a queue accepts plain HTTP"
  }

  assert {
    condition = jsondecode(aws_s3_bucket_policy.dead_letters.policy).Statement == [{
      Sid = "DenyPlainHttp", Effect = "Deny", Principal = "*", Action = "s3:*"
      Resource = [
        "arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1",
        "arn:aws:s3:::gridpost-dead-letters-123456789012-eu-central-1/*",
      ]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
    error_message = "the bucket's policy is ${aws_s3_bucket_policy.dead_letters.policy}"
  }

  assert {
    condition = jsondecode(aws_s3_bucket_policy.payloads.policy).Statement == [{
      Sid = "DenyPlainHttp", Effect = "Deny", Principal = "*", Action = "s3:*"
      Resource = [
        "arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1",
        "arn:aws:s3:::gridpost-payloads-123456789012-eu-central-1/*",
      ]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
    error_message = "the payload bucket's policy is ${aws_s3_bucket_policy.payloads.policy}"
  }
}

run "arns_follow_the_partition" {
  command = plan

  variables {
    account = { id = "123456789012", region = "cn-north-1", partition = "aws-cn", dns_suffix = "amazonaws.com.cn" }
  }

  assert {
    condition     = strcontains(module.ingest.policy, "arn:aws-cn:sqs:cn-north-1:123456789012:gridpost-dispatch")
    error_message = "ingest's policy is ${module.ingest.policy}"
  }

  assert {
    condition     = module.ingest.environment["GRIDPOST_DISPATCH_QUEUE_URL"] == "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/gridpost-dispatch"
    error_message = "the dispatch queue's URL is ${module.ingest.environment["GRIDPOST_DISPATCH_QUEUE_URL"]}"
  }
}
