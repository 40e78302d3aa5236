# manage: the resource API. It is the only writer of configuration, and no event passes through it. For operators it reads the
# poison queue, parked deliveries and dead letters, and sends them back to the queue where they belong.

module "manage" {
  source = "./modules/function"

  name        = "${var.name_prefix}-manage"
  settings    = local.function_settings
  description = "Gridpost: topics, keys, event subscriptions, and what waits"
  program     = local.function_programs["manage"]
  vpc         = var.vpc

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE              = local.config_table_name
    GRIDPOST_STATE_TABLE               = local.state_table_name
    GRIDPOST_RETRY_QUEUE_URLS          = join(",", local.retry_queue_urls)
    GRIDPOST_RETRY_QUEUES_SENT_TO      = tostring(coalesce(var.retry_queues_sent_to, var.retry_queue_count))
    GRIDPOST_SLOW_QUEUE_URL            = local.slow_queue_url
    GRIDPOST_DEAD_LETTER_QUEUE_URL     = local.dead_letter_queue_url
    GRIDPOST_FAN_OUT_QUEUE_URL         = local.fan_out_queue_url
    GRIDPOST_REDRIVE_QUEUE_URL         = local.redrive_queue_url
    GRIDPOST_POISON_QUEUE_URL          = local.poison_queue_url
    GRIDPOST_CONFIG_CACHE_MS           = tostring(var.config_cache_ms)
    GRIDPOST_DISPATCH_CONFIG_CACHE_MS  = tostring(var.dispatch_config_cache_ms)
    GRIDPOST_ENDPOINT_ALLOWED_NETWORKS = join(",", var.endpoint_allowed_networks)
    GRIDPOST_ENDPOINT_ALLOWED_PORTS    = join(",", var.endpoint_allowed_ports)
    GRIDPOST_RESOURCE_DESTINATIONS     = join(",", var.resource_destinations)
    GRIDPOST_DISPATCH_ARN              = local.dispatch_arn
    GRIDPOST_VALIDATION_ORIGIN         = var.validation_origin
    GRIDPOST_PAYLOAD_BUCKET            = local.payload_bucket_name
    GRIDPOST_QUEUE_MESSAGE_BYTES_MAX   = tostring(var.queue_message_bytes_max)
    GRIDPOST_FAILED_RESPONSE_BYTES     = tostring(var.failed_response_bytes)
    GRIDPOST_PUBLISH_URL               = local.publish_url
    GRIDPOST_MANAGE_URL                = local.manage_url
    GRIDPOST_MANAGE_AUTHORIZATION      = var.manage_authorization
    GRIDPOST_NAME_PREFIX               = var.name_prefix
    GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS   = tostring(var.log_successful_attempts)
  }, local.endpoint_secret_environment, local.endpoint_identity_environment)

  statements = concat([
    {
      # A transaction needs the permission of each of its operations; ConditionCheckItem is one of them.
      sid = "KeepConfig"
      actions = [
        "dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
        "dynamodb:ConditionCheckItem",
      ]
      resources    = [local.config_table_arn]
      leading_keys = ["TOPIC#*", "SECRETS#*", "KEYS#*", "TOPICS"]
    },
    {
      # Parked deliveries are stored by the minute in which they are due, so finding some of them means reading all.
      sid       = "FindAndEndWhatWaits"
      actions   = ["dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"]
      resources = [local.state_table_arn]
    },
    {
      sid       = "FindWaiting"
      actions   = ["dynamodb:Query"]
      resources = ["${local.state_table_arn}/index/${local.waiting_index_name}"]
    },
    {
      sid = "HandlePoison"
      actions = [
        "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility",
      ]
      resources = [local.poison_queue_arn]
    },
    # There may be 32 retry queues, and IAM allows 10,240 characters for all statements, so name them only once.
    {
      sid       = "ShowHidden"
      actions   = ["sqs:ChangeMessageVisibility", "sqs:SendMessage"]
      resources = concat(local.retry_queue_arns, [local.slow_queue_arn])
    },
    {
      sid       = "SendBack"
      actions   = ["sqs:SendMessage"]
      resources = [local.dead_letter_queue_arn, local.fan_out_queue_arn, local.redrive_queue_arn]
    },
    {
      sid       = "ReadAndPurgeDeadLetters"
      actions   = ["s3:GetObject", "s3:DeleteObject"]
      resources = [for arn in local.dead_letter_bucket_arns : "${arn}/*"]
    },
    {
      sid       = "FindDeadLetters"
      actions   = ["s3:ListBucket"]
      resources = local.dead_letter_bucket_arns
    },
    # To count the events when a piece of a large publish is purged from the poison queue.
    {
      sid       = "CountPublishes"
      actions   = ["s3:GetObject"]
      resources = ["${local.payload_bucket_arn}/publishes/*"]
    },
    # Without it S3 answers 403 for a missing publish, which does not prove that it is gone.
    {
      sid       = "SeeThatPublishesAreGone"
      actions   = ["s3:ListBucket"]
      resources = [local.payload_bucket_arn]
    },
    {
      # With and without `:*`: AWS checks the ARN that has it (Amazon CloudWatch Logs API, "LogGroup"), emulators the other.
      sid       = "ReadTheJournal"
      actions   = ["logs:FilterLogEvents", "logs:StartQuery"]
      resources = local.journal_group_arns
    },
    # A list of groups and a query have no ARN; a query's id is never a caller's. Source: Service Authorization Reference,
    # "Amazon CloudWatch Logs".
    {
      sid       = "FindTheJournal"
      actions   = ["logs:DescribeLogGroups", "logs:GetQueryResults"]
      resources = ["*"]
    },
    ], [
    for arn in [local.dispatch_arn] : {
      sid       = "CheckResources"
      actions   = ["lambda:InvokeFunction"]
      resources = [arn]
    } if length(var.resource_destinations) > 0
  ], local.endpoint_secret_statements, local.endpoint_identity_statements, local.key_statements, local.further_bucket_key_statements_of["Decrypt"])
}

# The log groups of the functions that attempt deliveries or count events.
locals {
  log_group_arn_prefix = "arn:${local.account.partition}:logs:${local.account.region}:${local.account.id}:log-group:"
  journal_group_arns = [
    for function in concat(["ingest", "dispatch", "dead-letter", "redrive", "manage"], var.aws_sources ? ["intake"] : []) :
    "${local.log_group_arn_prefix}/aws/lambda/${var.name_prefix}-${function}*"
  ]
}
