# dispatch: first attempts only; it hides nothing. retry-N: all later attempts, held by visibility timeouts. slow: what is held
# back for slow endpoints, and requests to them. dead-letter: ended deliveries on their way to S3. fan-out: pieces of publishes
# that make too many deliveries for one request. redrive: a message for each job that sends dead letters again. poison: records
# that our code could not settle in 1,000 receives.
#
# Policies and redrive policies are arguments of the queues, not separate resources: the provider waits 25 s for each change of a
# queue's attributes, and this keeps the longest chain at two (poison, then the rest).

locals {
  # SQS's maximum, 14 days: a queue must never lose a delivery. The code applies the time-to-live.
  queue_retention_seconds = 14 * 24 * 60 * 60

  # The highest value that SQS accepts, because every receive counts, including waits and console peeks. It does not limit
  # attempts.
  receives_max = 1000

  # The function may run until its timeout; 30 s later its unsettled records are due again. Lambda refuses a mapping if the
  # queue's timeout is below the function's. Six times that, as AWS advises, would only delay records that a crash left behind.
  delivery_visibility_seconds = local.timeout_seconds["dispatch"] + 30

  # A record waits for its batch first: for the window, or where few come for 20 s, for which Lambda polls.
  slow_visibility_seconds = local.delivery_visibility_seconds + (var.slow_window_seconds > 0 ? 20 : 0)

  # These messages can wait after a crash: six times the function's timeout, as AWS advises for throttled functions.
  dead_letter_visibility_seconds = local.timeout_seconds["dead-letter"] * 6

  # For a piece of a large fan-out it is short again: a crash must not keep its deliveries waiting.
  fan_out_visibility_seconds = local.timeout_seconds["expand"] + 30

  # A redrive job, too, continues soon from its stored position.
  redrive_visibility_seconds = local.timeout_seconds["redrive"] + 30

  redrive_to_poison = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.poison.arn
    maxReceiveCount     = local.receives_max
  })

  # A queue has one or the other.
  sqs_key_arn     = var.kms_key_arns.sqs
  sqs_managed_sse = local.sqs_key_arn == null ? true : null

  # By queue name. SQS accepts plain HTTP unless told not to. Without Version the provider would wait in vain for the policy
  # to come back as it was sent.
  tls_only_queue_policies = {
    for name in local.queue_names : name => jsonencode({
      Version = "2012-10-17"
      Statement = [{
        Sid       = "DenyPlainHttp"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = "${local.queue_arn_prefix}:${name}"
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      }]
    })
  }
}

# No redrive_allow_policy: it names at most ten source queues, and there may be 37. By default, all queues of this account and
# region may redrive here.
resource "aws_sqs_queue" "poison" {
  name                      = local.poison_queue_name
  tags                      = local.tags
  message_retention_seconds = local.queue_retention_seconds
  max_message_size          = var.queue_message_bytes_max
  sqs_managed_sse_enabled   = local.sqs_managed_sse
  kms_master_key_id         = local.sqs_key_arn
  policy                    = local.tls_only_queue_policies[local.poison_queue_name]

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.poison_queue_url) == local.poison_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.poison_queue_url}."
    }
  }
}

resource "aws_sqs_queue" "dispatch" {
  name                       = local.dispatch_queue_name
  tags                       = local.tags
  visibility_timeout_seconds = local.delivery_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.dispatch_queue_name]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.dispatch_queue_url) == local.dispatch_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.dispatch_queue_url}."
    }
  }
}

resource "aws_sqs_queue" "retry" {
  count = var.retry_queue_count

  name                       = local.retry_queue_names[count.index]
  tags                       = local.tags
  visibility_timeout_seconds = local.delivery_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.retry_queue_names[count.index]]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.retry_queue_urls[count.index]) == local.retry_queue_urls[count.index]
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.retry_queue_urls[count.index]}."
    }
  }
}

# Without slow_concurrency it is still there, and read: it may hold deliveries.
resource "aws_sqs_queue" "slow" {
  name                       = local.slow_queue_name
  tags                       = local.tags
  visibility_timeout_seconds = local.slow_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.slow_queue_name]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.slow_queue_url) == local.slow_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.slow_queue_url}."
    }
  }
}

# dispatch sets dead_letter_delay_seconds on each message, not on the queue, so a redriven message does not wait again.
resource "aws_sqs_queue" "dead_letter" {
  name                       = local.dead_letter_queue_name
  tags                       = local.tags
  visibility_timeout_seconds = local.dead_letter_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.dead_letter_queue_name]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.dead_letter_queue_url) == local.dead_letter_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.dead_letter_queue_url}."
    }
  }
}

resource "aws_sqs_queue" "fan_out" {
  name                       = local.fan_out_queue_name
  tags                       = local.tags
  visibility_timeout_seconds = local.fan_out_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.fan_out_queue_name]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.fan_out_queue_url) == local.fan_out_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.fan_out_queue_url}."
    }
  }
}

resource "aws_sqs_queue" "redrive" {
  name                       = local.redrive_queue_name
  tags                       = local.tags
  visibility_timeout_seconds = local.redrive_visibility_seconds
  message_retention_seconds  = local.queue_retention_seconds
  max_message_size           = var.queue_message_bytes_max
  sqs_managed_sse_enabled    = local.sqs_managed_sse
  kms_master_key_id          = local.sqs_key_arn
  policy                     = local.tls_only_queue_policies[local.redrive_queue_name]
  redrive_policy             = local.redrive_to_poison

  lifecycle {
    postcondition {
      condition     = coalesce(self.url, local.redrive_queue_url) == local.redrive_queue_url
      error_message = "SQS gave the queue the URL ${jsonencode(self.url)}; the functions were told ${local.redrive_queue_url}."
    }
  }
}
