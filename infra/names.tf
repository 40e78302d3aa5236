# Names, and the ARNs and queue URLs that follow from them. Policies and environments use these instead of the resources'
# attributes. So Terraform creates functions in parallel with the queues, which take 50 s, and a function's settings are known,
# and tested, at plan time. Each queue checks that its URL is the composed one.

data "aws_caller_identity" "current" {
  count = var.account == null ? 1 : 0
}

data "aws_partition" "current" {
  count = var.account == null ? 1 : 0
}

data "aws_region" "current" {
  count = var.account == null ? 1 : 0
}

locals {
  emulated = var.aws_endpoint_url != null

  # id, because the attribute for a region's name differs between providers 5 and 6.
  account = coalesce(var.account, {
    id         = one(data.aws_caller_identity.current[*].account_id)
    region     = one(data.aws_region.current[*].id)
    partition  = one(data.aws_partition.current[*].partition)
    dns_suffix = one(data.aws_partition.current[*].dns_suffix)
  })
  account_id = local.account.id
  region     = local.account.region
  partition  = local.account.partition

  # Set on each resource, because the module has no provider block with default tags.
  tags = merge({ application = "gridpost", "gridpost:deployment" = var.name_prefix }, var.tags)

  dispatch_queue_name    = "${var.name_prefix}-dispatch"
  retry_queue_names      = [for shard in range(var.retry_queue_count) : "${var.name_prefix}-retry-${shard}"]
  slow_queue_name        = "${var.name_prefix}-slow"
  dead_letter_queue_name = "${var.name_prefix}-dead-letter"
  fan_out_queue_name     = "${var.name_prefix}-fan-out"
  redrive_queue_name     = "${var.name_prefix}-redrive"
  poison_queue_name      = "${var.name_prefix}-poison"
  queue_names = concat([
    local.dispatch_queue_name, local.dead_letter_queue_name, local.fan_out_queue_name, local.redrive_queue_name,
    local.poison_queue_name,
    local.slow_queue_name,
  ], local.retry_queue_names)

  # The queues in which deliveries wait hidden, by what they are called in alarms.
  waiting_queue_names = merge(
    { for shard, name in local.retry_queue_names : "retry-${shard}" => name },
    { slow = local.slow_queue_name },
  )

  queue_arn_prefix      = "arn:${local.partition}:sqs:${local.region}:${local.account_id}"
  dispatch_queue_arn    = "${local.queue_arn_prefix}:${local.dispatch_queue_name}"
  retry_queue_arns      = [for name in local.retry_queue_names : "${local.queue_arn_prefix}:${name}"]
  slow_queue_arn        = "${local.queue_arn_prefix}:${local.slow_queue_name}"
  dead_letter_queue_arn = "${local.queue_arn_prefix}:${local.dead_letter_queue_name}"
  fan_out_queue_arn     = "${local.queue_arn_prefix}:${local.fan_out_queue_name}"
  redrive_queue_arn     = "${local.queue_arn_prefix}:${local.redrive_queue_name}"
  poison_queue_arn      = "${local.queue_arn_prefix}:${local.poison_queue_name}"

  queue_url_prefix      = "${local.emulated ? var.aws_endpoint_url : "https://sqs.${local.region}.${local.account.dns_suffix}"}/${local.account_id}"
  dispatch_queue_url    = "${local.queue_url_prefix}/${local.dispatch_queue_name}"
  retry_queue_urls      = [for name in local.retry_queue_names : "${local.queue_url_prefix}/${name}"]
  slow_queue_url        = "${local.queue_url_prefix}/${local.slow_queue_name}"
  dead_letter_queue_url = "${local.queue_url_prefix}/${local.dead_letter_queue_name}"
  fan_out_queue_url     = "${local.queue_url_prefix}/${local.fan_out_queue_name}"
  redrive_queue_url     = "${local.queue_url_prefix}/${local.redrive_queue_name}"
  poison_queue_url      = "${local.queue_url_prefix}/${local.poison_queue_name}"

  # manage asks dispatch whether an AWS resource exists.
  dispatch_arn = "arn:${local.partition}:lambda:${local.region}:${local.account_id}:function:${var.name_prefix}-dispatch${local.live}"

  # Suffix of a function's ARN if it has versions.
  live = var.versions ? ":live" : ""

  config_table_name = "${var.name_prefix}-config"
  state_table_name  = "${var.name_prefix}-state"
  table_arn_prefix  = "arn:${local.partition}:dynamodb:${local.region}:${local.account_id}:table"
  config_table_arn  = "${local.table_arn_prefix}/${local.config_table_name}"
  state_table_arn   = "${local.table_arn_prefix}/${local.state_table_name}"

  # The same name is in shared/aws/src/state.rs.
  waiting_index_name = "waiting"

  # Bucket names are global: account and region make this one unique. At most 63 characters, so name_prefix has at most 20.
  dead_letter_bucket_name = "${var.name_prefix}-dead-letters-${local.account_id}-${local.region}"
  dead_letter_bucket_arn  = "arn:${local.partition}:s3:::${local.dead_letter_bucket_name}"
  dead_letter_bucket_arns = concat([local.dead_letter_bucket_arn], var.dead_letter_bucket_arns)
  payload_bucket_name     = "${var.name_prefix}-payloads-${local.account_id}-${local.region}"
  payload_bucket_arn      = "arn:${local.partition}:s3:::${local.payload_bucket_name}"

  # A function's permissions on customer keys, limited to calls through the services whose data they encrypt.
  key_actions = {
    dynamodb = ["kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"]
    s3       = ["kms:Decrypt", "kms:GenerateDataKey"]
    sqs      = ["kms:Decrypt", "kms:GenerateDataKey"]
  }
  key_statements_of = {
    for service, actions in local.key_actions : service => [
      for arn in [var.kms_key_arns[service]] : {
        sid         = "UseKeyOf${title(service)}"
        actions     = actions
        resources   = [arn]
        via_service = "${service}.${local.region}.${local.account.dns_suffix}"
      } if arn != null
    ]
  }
  # Messages and objects keep the key under which they were written.
  former_key_statements = [
    for service in ["s3", "sqs"] : {
      sid         = "ReadByFormerKeysOf${title(service)}"
      actions     = ["kms:Decrypt"]
      resources   = var.kms_former_key_arns
      via_service = "${service}.${local.region}.${local.account.dns_suffix}"
    } if length(var.kms_former_key_arns) > 0
  ]
  key_statements = concat(local.key_statements_of["dynamodb"], local.key_statements_of["s3"], local.key_statements_of["sqs"], local.former_key_statements)

  # dead-letter writes to further buckets; redrive and manage read them.
  further_bucket_key_statements_of = {
    for action in ["Decrypt", "GenerateDataKey"] : action => [
      for arns in [var.dead_letter_bucket_key_arns] : {
        sid         = "UseKeysOfFurtherBuckets"
        actions     = ["kms:${action}"]
        resources   = arns
        via_service = "s3.${local.region}.${local.account.dns_suffix}"
      } if length(arns) > 0
    ]
  }

  # Without the right to list, S3 answers 403 for a missing object, which does not prove that it is gone.
  payload_read_statements = [
    {
      sid       = "TakeAndReleasePayloads"
      actions   = ["s3:GetObject", "s3:PutObject"]
      resources = ["${local.payload_bucket_arn}/deliveries/*"]
    },
    {
      sid       = "SeeThatPayloadsAreGone"
      actions   = ["s3:ListBucket"]
      resources = [local.payload_bucket_arn]
    },
  ]
}
