# The module of AWS sources: what it makes of each kind, who may send to its queues, what its function may do, and what it refuses.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir = "tests/functions"
  aws_sources   = true
  name          = "uploads"
  topic         = "uploads"
}

run "nothing_exists_unasked" {
  command = plan

  variables {
    aws_sources = false
  }

  assert {
    condition     = output.aws_sources == null && length(aws_cloudwatch_log_group.intake) == 0 && !contains(local.programs, "intake")
    error_message = "without aws_sources there is ${jsonencode(output.aws_sources)}"
  }
}

run "a_deployment" {
  command = plan

  variables {
    inline_fan_out = 50000
  }

  assert {
    condition = (
      output.aws_sources.function.environment["GRIDPOST_INLINE_FAN_OUT"] == "10000"
      && module.ingest.environment["GRIDPOST_INLINE_FAN_OUT"] == "50000"
    )
    error_message = "sources enqueue ${output.aws_sources.function.environment["GRIDPOST_INLINE_FAN_OUT"]} at once"
  }

  assert {
    condition = (
      length(aws_cloudwatch_log_group.intake) == 1
      && contains(local.programs, "intake")
      && !contains(flatten(output.aws_sources.function.statements[*].actions), "dynamodb:PutItem")
      && flatten([for statement in output.aws_sources.function.statements : try(statement.leading_keys, [])]) == ["TOPIC#*"]
    )
    error_message = "sources are given ${jsonencode(output.aws_sources)}"
  }
}

run "a_buckets_objects" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    s3       = { bucket = "my-uploads", prefix = "in/", suffix = ".csv" }
    blobs    = true
  }

  assert {
    condition = jsondecode(module.intake.environment["GRIDPOST_SOURCE"]) == {
      name      = "uploads"
      topic     = "uploads"
      queueArn  = "arn:aws:sqs:eu-central-1:123456789012:gridpost-source-uploads"
      source    = "arn:aws:sqs:eu-central-1:123456789012:gridpost-source-uploads"
      eventType = "com.amazonaws.sqs.message"
      envelope  = "NONE"
      carries   = "S3"
      content   = "AUTO"
      blobs     = true
    }
    error_message = "the function is told ${module.intake.environment["GRIDPOST_SOURCE"]}"
  }

  assert {
    condition = (
      module.intake.environment["GRIDPOST_POISON_QUEUE_URL"] == "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-source-uploads-poison"
      && module.intake.environment["GRIDPOST_DISPATCH_QUEUE_URL"] == "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-dispatch"
    )
    error_message = "the environment is ${jsonencode(module.intake.environment)}"
  }

  assert {
    condition = [for statement in jsondecode(aws_sqs_queue.this[0].policy).Statement : statement if statement.Effect == "Allow"] == [{
      Sid       = "TakeFromSource"
      Effect    = "Allow"
      Principal = { Service = "s3.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = "arn:aws:sqs:eu-central-1:123456789012:gridpost-source-uploads"
      Condition = {
        ArnEquals    = { "aws:SourceArn" = "arn:aws:s3:::my-uploads" }
        StringEquals = { "aws:SourceAccount" = "123456789012" }
      }
    }]
    error_message = "who may send: ${aws_sqs_queue.this[0].policy}"
  }

  assert {
    condition = alltrue([
      for policy in [aws_sqs_queue.this[0].policy, aws_sqs_queue.poison.policy] :
      contains(jsondecode(policy).Statement[*].Sid, "DenyPlainHttp")
    ]) && length(jsondecode(aws_sqs_queue.poison.policy).Statement) == 1
    error_message = "the poison queue: ${aws_sqs_queue.poison.policy}"
  }

  assert {
    condition = (
      aws_s3_bucket_notification.this[0].bucket == "my-uploads"
      && aws_s3_bucket_notification.this[0].queue[0].filter_prefix == "in/"
      && aws_s3_bucket_notification.this[0].queue[0].filter_suffix == ".csv"
      && aws_s3_bucket_notification.this[0].queue[0].events == toset(["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])
    )
    error_message = "the notification is ${jsonencode(aws_s3_bucket_notification.this[0])}"
  }

  # The role: only this source's queues, and what accepted events need.
  assert {
    condition = {
      for statement in jsondecode(module.intake.policy).Statement : statement.Sid => statement.Resource
      if startswith(statement.Action[0], "sqs:")
      } == {
      ConsumeSource       = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-source-uploads"]
      KeepRefusedMessages = ["arn:aws:sqs:eu-central-1:123456789012:gridpost-source-uploads-poison"]
      EnqueueDeliveries = [
        "arn:aws:sqs:eu-central-1:123456789012:gridpost-dispatch", "arn:aws:sqs:eu-central-1:123456789012:gridpost-fan-out",
      ]
    }
    error_message = "the role may ${module.intake.policy}"
  }

  # It reads its own topic and no other.
  assert {
    condition = {
      for statement in jsondecode(module.intake.policy).Statement : statement.Sid => statement.Condition
      if startswith(statement.Action[0], "dynamodb:")
    } == { ReadConfig = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["TOPIC#uploads"] } } }
    error_message = "the role may read ${module.intake.policy}"
  }

  # Nothing else is allowed on everything.
  assert {
    condition = alltrue([
      for statement in jsondecode(module.intake.policy).Statement :
      statement.Effect == "Deny" || !contains(flatten([statement.Resource]), "*")
    ])
    error_message = "the role may ${module.intake.policy}"
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.this.batch_size == 10
      && aws_lambda_event_source_mapping.this.function_response_types == toset(["ReportBatchItemFailures"])
      && aws_lambda_event_source_mapping.this.scaling_config[0].maximum_concurrency == 5
    )
    error_message = "the mapping is ${jsonencode(aws_lambda_event_source_mapping.this)}"
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.late) == 1 && length(aws_cloudwatch_metric_alarm.poison) == 1
    error_message = "alarms: ${length(aws_cloudwatch_metric_alarm.late)}"
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.kept[0].namespace == run.a_deployment.aws_sources.alarms.namespace
      && aws_cloudwatch_metric_alarm.kept[0].dimensions == tomap({ Source = "uploads" })
    )
    error_message = "the alarm looks at ${jsonencode(aws_cloudwatch_metric_alarm.kept)}"
  }

  # A message is not received again while the function may still be at it, and a bucket of its own loses none.
  assert {
    condition     = aws_sqs_queue.this[0].visibility_timeout_seconds == 59 && aws_sqs_queue.this[0].message_retention_seconds == 1209600
    error_message = "the queue is ${jsonencode(aws_sqs_queue.this)}"
  }
}

run "a_bus" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost     = run.a_deployment.aws_sources
    event_bridge = { event_pattern = jsonencode({ source = ["aws.ec2"] }), bus_name = "own" }
  }

  assert {
    condition = alltrue([
      for policy in [aws_sqs_queue.this[0].policy, aws_sqs_queue.poison.policy] : [
        for statement in jsondecode(policy).Statement : [statement.Principal.Service, statement.Condition.ArnEquals["aws:SourceArn"]]
        if statement.Effect == "Allow"
      ] == [["events.amazonaws.com", "arn:aws:events:eu-central-1:123456789012:rule/own/gridpost-source-uploads"]]
    ])
    error_message = "who may send: ${aws_sqs_queue.this[0].policy} ${aws_sqs_queue.poison.policy}"
  }

  assert {
    condition = (
      aws_cloudwatch_event_rule.this[0].name == "gridpost-source-uploads" && aws_cloudwatch_event_rule.this[0].event_bus_name == "own"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).carries == "EVENT_BRIDGE"
      && length(aws_s3_bucket_notification.this) == 0
    )
    error_message = "the rule is ${jsonencode(aws_cloudwatch_event_rule.this[0])}"
  }
}

run "a_bus_by_its_arn" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost                = run.a_deployment.aws_sources
    event_bridge            = { event_pattern = "{}", bus_name = "arn:aws:events:eu-central-1:123456789012:event-bus/own" }
    batching_window_seconds = 300
  }

  assert {
    condition = alltrue([
      for policy in [aws_sqs_queue.this[0].policy, aws_sqs_queue.poison.policy] : [
        for statement in jsondecode(policy).Statement : statement.Condition.ArnEquals["aws:SourceArn"] if statement.Effect == "Allow"
      ] == ["arn:aws:events:eu-central-1:123456789012:rule/own/gridpost-source-uploads"]
    ])
    error_message = "who may send: ${aws_sqs_queue.this[0].policy} ${aws_sqs_queue.poison.policy}"
  }

  assert {
    condition     = aws_sqs_queue.this[0].visibility_timeout_seconds == 359
    error_message = "a message that Lambda holds while a batch fills comes back after ${aws_sqs_queue.this[0].visibility_timeout_seconds} s"
  }
}

run "the_default_bus_by_its_arn" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost     = run.a_deployment.aws_sources
    event_bridge = { event_pattern = "{}", bus_name = "arn:aws:events:eu-central-1:123456789012:event-bus/default" }
  }

  assert {
    condition     = strcontains(aws_sqs_queue.this[0].policy, "\"arn:aws:events:eu-central-1:123456789012:rule/gridpost-source-uploads\"")
    error_message = "who may send: ${aws_sqs_queue.this[0].policy}"
  }
}

run "a_topic_with_a_filter" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost   = run.a_deployment.aws_sources
    sns        = { topic_arn = "arn:aws:sns:eu-central-1:123456789012:orders", filter_policy = "{\"priority\":[\"high\"]}" }
    event_type = "Shop.Order"
  }

  assert {
    condition = (
      aws_sns_topic_subscription.this[0].filter_policy == "{\"priority\":[\"high\"]}"
      && aws_sns_topic_subscription.this[0].filter_policy_scope == "MessageAttributes"
      && !aws_sns_topic_subscription.this[0].raw_message_delivery
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).envelope == "SNS"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).eventType == "Shop.Order"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).source == "arn:aws:sns:eu-central-1:123456789012:orders"
    )
    error_message = "the subscription is ${jsonencode(aws_sns_topic_subscription.this[0])}"
  }
}

run "a_topics_raw_messages" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    sns      = { topic_arn = "arn:aws:sns:eu-central-1:123456789012:uploads", raw = true, carries = "S3" }
    blobs    = true
  }

  assert {
    condition = (
      aws_sns_topic_subscription.this[0].raw_message_delivery
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).envelope == "NONE"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).carries == "S3"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).eventType == "com.amazonaws.sns.Notification"
    )
    error_message = "the function is told ${module.intake.environment["GRIDPOST_SOURCE"]}"
  }
}

run "a_queue_of_ones_own_with_a_key" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = merge(run.a_deployment.aws_sources, { alarms = { paging = false, topic_arns = [], end_topic_arns = [], age_seconds = 300 } })
    sqs = {
      queue_arn         = "arn:aws:sqs:eu-central-1:123456789012:legacy"
      kms_key_arn       = "arn:aws:kms:eu-central-1:123456789012:key/k"
      message_bytes_max = 262144
    }
  }

  assert {
    condition = (
      length(aws_sqs_queue.this) == 0
      && aws_lambda_event_source_mapping.this.event_source_arn == "arn:aws:sqs:eu-central-1:123456789012:legacy"
      && jsondecode(module.intake.environment["GRIDPOST_SOURCE"]).queueArn == "arn:aws:sqs:eu-central-1:123456789012:legacy"
      && strcontains(module.intake.policy, "\"Action\":[\"kms:Decrypt\"],\"Condition\":{\"StringEquals\":{\"kms:ViaService\":\"sqs.eu-central-1.amazonaws.com\"}}")
      && length(aws_cloudwatch_metric_alarm.late) + length(aws_cloudwatch_metric_alarm.poison) == 0
      && length(aws_cloudwatch_metric_alarm.kept) == 0
    )
    error_message = "the role may ${module.intake.policy}"
  }
}

run "what_a_queue_of_ones_own_takes_fits_into_the_poison_queue" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = merge(run.a_deployment.aws_sources, {
      queues = merge(run.a_deployment.aws_sources.queues, { message_bytes_max = 229376 })
    })
    sqs = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy", message_bytes_max = 262144 }
  }

  # The AWS provider of these tests refuses larger ones, such as sqs.message_bytes_max may ask for.
  assert {
    condition     = aws_sqs_queue.poison.max_message_size == 262144
    error_message = "the poison queue takes ${aws_sqs_queue.poison.max_message_size} bytes"
  }

  assert {
    condition     = strcontains(aws_cloudwatch_metric_alarm.poison[0].alarm_description, "if the redrive policy of arn:aws:sqs:eu-central-1:123456789012:legacy names")
    error_message = "the alarm says ${aws_cloudwatch_metric_alarm.poison[0].alarm_description}"
  }
}

run "a_source_has_one_kind" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost     = run.a_deployment.aws_sources
    sqs          = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy", message_bytes_max = 262144 }
    event_bridge = { event_pattern = "{}" }
  }

  expect_failures = [aws_sqs_queue.poison]
}

run "or_none_is_refused" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
  }

  expect_failures = [aws_sqs_queue.poison]
}

run "blobs_are_objects" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    sqs      = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy", message_bytes_max = 262144 }
    blobs    = true
  }

  expect_failures = [aws_sqs_queue.poison]
}

run "what_is_misspelt_is_refused" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost                = run.a_deployment.aws_sources
    name                    = "Uploads of the shop"
    topic                   = "no topic"
    event_bridge            = { event_pattern = "aws.ec2" }
    s3                      = { bucket = "No Bucket", events = ["ObjectCreated"] }
    sns                     = { topic_arn = "orders", carries = "BLOBS" }
    sqs                     = { queue_arn = "legacy", envelope = "sns" }
    content                 = "JSON"
    event_type              = ""
    concurrency             = 1
    batching_window_seconds = 301
  }

  expect_failures = [
    var.name, var.topic, var.event_bridge, var.s3, var.sns, var.sqs, var.content, var.event_type, var.concurrency,
    var.batching_window_seconds,
  ]
}

run "names_of_poison_queues_and_fifo_queues_are_refused" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    name     = "uploads-poison"
    sqs      = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy.fifo" }
  }

  expect_failures = [var.name, var.sqs]
}

run "a_queue_of_too_large_messages_is_refused" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    sqs      = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy", message_bytes_max = 1048577 }
  }

  expect_failures = [var.sqs]
}

# One that is not known may be larger than the poison queue takes, which would lose what is refused.
run "a_queue_whose_maximum_is_not_said_is_refused" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = run.a_deployment.aws_sources
    sqs      = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy" }
  }

  expect_failures = [var.sqs]
}

run "a_deployment_without_sources_is_told" {
  command = plan

  module {
    source = "./modules/aws-source"
  }

  variables {
    gridpost = null
    sqs      = { queue_arn = "arn:aws:sqs:eu-central-1:123456789012:legacy", message_bytes_max = 262144 }
  }

  expect_failures = [var.gridpost]
}
