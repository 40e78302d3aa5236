# config: topics with their event subscriptions (TOPIC#<topic>), the secrets of these (SECRETS#<topic>), topics' access keys
# (KEYS#<topic>) and their names (TOPICS); only manage writes it. state: endpoint health, the state of failing deliveries, parked deliveries, jobs that send dead letters again,
# the keys of publishes (hashed, so spread over all partitions).

locals {
  table_key_arns = compact([var.kms_key_arns.dynamodb])
}

resource "aws_dynamodb_table" "config" {
  name                        = local.config_table_name
  tags                        = local.tags
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = var.protect_data

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  # People typed this data: keep it restorable to any second of the last 35 days.
  point_in_time_recovery {
    enabled = true
  }

  # checkov:skip=CKV_AWS_119:a customer key (kms_key_arns) costs per month and per request, and adds a way to lose the data
  # Without the block DynamoDB encrypts the table with its own key, which costs nothing; with enabled alone it would use the
  # account's aws/dynamodb key, whose requests are charged.
  dynamic "server_side_encryption" {
    for_each = local.table_key_arns

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  # A queue can't be protected. So Terraform must delete the tables first, and where protect_data refuses that, it deletes no queue
  # and no message either.
  depends_on = [
    aws_sqs_queue.poison, aws_sqs_queue.dispatch, aws_sqs_queue.retry, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out,
    aws_sqs_queue.redrive, aws_sqs_queue.slow,
  ]
}

resource "aws_dynamodb_table" "state" {
  # checkov:skip=CKV_AWS_28:yesterday's state would deliver again what has ended since
  name                        = local.state_table_name
  tags                        = local.tags
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = var.protect_data

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  attribute {
    name = "waitingFor"
    type = "S"
  }

  attribute {
    name = "waitingPlace"
    type = "S"
  }

  # Deliveries that have failed and not ended, by event subscription and publish time. Only their states have these attributes, so
  # the index holds nothing else, and never a delivery that succeeds at once. The deliveries of an event subscription are spread
  # over 16 keys, because one key takes 1,000 writes a second, and an index at its limit throttles the table. It projects keys
  # only, so a further failure of a delivery does not write to it.
  global_secondary_index {
    name            = local.waiting_index_name
    hash_key        = "waitingFor"
    range_key       = "waitingPlace"
    projection_type = "KEYS_ONLY"
  }

  # Only cleans up: DynamoDB may take two days, so the code compares times itself.
  ttl {
    attribute_name = "expiresAt"
    enabled        = true
  }

  # checkov:skip=CKV_AWS_119:as for config
  dynamic "server_side_encryption" {
    for_each = local.table_key_arns

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }

  # As for config.
  depends_on = [
    aws_sqs_queue.poison, aws_sqs_queue.dispatch, aws_sqs_queue.retry, aws_sqs_queue.dead_letter, aws_sqs_queue.fan_out,
    aws_sqs_queue.redrive, aws_sqs_queue.slow,
  ]
}
