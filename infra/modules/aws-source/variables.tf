variable "gridpost" {
  description = "What the source needs of the deployment: output aws_sources of infra/, which is null unless the deployment has aws_sources = true."
  type        = any

  validation {
    condition     = var.gridpost == null || can(var.gridpost.function.environment)
    error_message = "gridpost must be the output aws_sources of the deployment's module."
  }

  validation {
    condition     = var.gridpost != null
    error_message = "gridpost is null: set aws_sources = true in the deployment's module."
  }
}

variable "name" {
  description = "Name of the source in the deployment, 1 to 20 lower-case letters, digits and hyphens. Changing it replaces the source's queues: empty them first."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$", var.name))
    error_message = "name must be 1 to 20 lower-case letters, digits and hyphens, got \"${var.name}\"."
  }

  validation {
    condition     = !endswith(var.name, "-poison")
    error_message = "name must not end in -poison, got \"${var.name}\": another source's poison queue could have the name of this one's queue."
  }
}

variable "topic" {
  description = "Topic that the events go to, 3 to 50 letters, digits and hyphens. While it does not exist, messages go to the source's poison queue."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9-]{3,50}$", var.topic))
    error_message = "topic must be 3 to 50 letters, digits and hyphens, got \"${var.topic}\"."
  }
}

variable "event_bridge" {
  description = "Events of an EventBridge bus that match a pattern (JSON); the module creates the rule. With blobs = true, S3's Object Created and Object Deleted become Event Grid's events about blobs."
  type = object({
    event_pattern = string
    bus_name      = optional(string, "default")
  })
  default = null

  validation {
    condition     = var.event_bridge == null || can(keys(jsondecode(var.event_bridge.event_pattern)))
    error_message = "event_bridge.event_pattern must be a JSON object, such as jsonencode({ source = [\"aws.ec2\"] })."
  }
}

variable "s3" {
  description = "Objects of a bucket in the deployment's region. The module writes the bucket's notification, of which a bucket has one: with others in it, set notification = false and send to the output queue_arn from your own aws_s3_bucket_notification. bucket_account is for a bucket of another account."
  type = object({
    bucket         = string
    prefix         = optional(string)
    suffix         = optional(string)
    events         = optional(list(string), ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])
    notification   = optional(bool, true)
    bucket_account = optional(string)
  })
  default = null

  validation {
    condition     = var.s3 == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.s3.bucket))
    error_message = "s3.bucket must be the name of a bucket, got ${jsonencode(try(var.s3.bucket, null))}."
  }

  validation {
    condition     = var.s3 == null || alltrue([for event in try(var.s3.events, []) : startswith(event, "s3:")])
    error_message = "s3.events must be events of S3, such as s3:ObjectCreated:*, got ${jsonencode(try(var.s3.events, null))}."
  }
}

variable "sns" {
  description = "Messages of an SNS topic; the module subscribes its queue. filter_policy is JSON, matched with MessageAttributes or, by filter_policy_scope, with MessageBody. raw leaves out SNS's envelope (then the id is SQS's, and there is no subject). carries says what a message is: MESSAGES, S3 (notifications) or EVENT_BRIDGE (events)."
  type = object({
    topic_arn           = string
    filter_policy       = optional(string)
    filter_policy_scope = optional(string, "MessageAttributes")
    raw                 = optional(bool, false)
    carries             = optional(string, "MESSAGES")
  })
  default = null

  validation {
    condition     = var.sns == null || can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$", var.sns.topic_arn))
    error_message = "sns.topic_arn must be the ARN of a standard SNS topic, got ${jsonencode(try(var.sns.topic_arn, null))}."
  }

  validation {
    condition     = contains(["MESSAGES", "S3", "EVENT_BRIDGE"], try(var.sns.carries, "MESSAGES"))
    error_message = "sns.carries must be MESSAGES, S3 or EVENT_BRIDGE, got ${jsonencode(try(var.sns.carries, null))}."
  }
}

variable "sqs" {
  description = "A standard queue of your own, which the source then consumes alone. carries and envelope say what its messages are: MESSAGES, S3 or EVENT_BRIDGE, in SNS's envelope (SNS) or not (NONE). Its visibility timeout should be at least 59 s plus batching_window_seconds (Lambda refuses less than 29 s); with a key of your own, name it in kms_key_arn. Give it a redrive policy with the output poison_queue_arn (aws_sqs_queue_redrive_policy): without it, messages that kill the function come back until they expire, and SQS can't redrive what was refused. message_bytes_max is its maximum message size (attribute MaximumMessageSize; queues made since August 2025 have 1048576 unless they say otherwise), so that the poison queue takes whatever is refused: at least 262144, and over that it needs AWS provider 6.8 or later."
  type = object({
    queue_arn         = string
    carries           = optional(string, "MESSAGES")
    envelope          = optional(string, "NONE")
    kms_key_arn       = optional(string)
    message_bytes_max = optional(number)
  })
  default = null

  validation {
    condition     = var.sqs == null || can(regex("^arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,80}$", var.sqs.queue_arn))
    error_message = "sqs.queue_arn must be the ARN of a standard queue (not FIFO), got ${jsonencode(try(var.sqs.queue_arn, null))}."
  }

  validation {
    condition = (
      contains(["MESSAGES", "S3", "EVENT_BRIDGE"], try(var.sqs.carries, "MESSAGES"))
      && contains(["NONE", "SNS"], try(var.sqs.envelope, "NONE"))
    )
    error_message = "sqs.carries must be MESSAGES, S3 or EVENT_BRIDGE, and sqs.envelope NONE or SNS, got ${jsonencode(var.sqs)}."
  }

  # No default: one that is too small loses what is refused, without a word at the apply.
  validation {
    condition = var.sqs == null || try(
      var.sqs.message_bytes_max >= 262144 && var.sqs.message_bytes_max <= 1048576
      && floor(var.sqs.message_bytes_max) == var.sqs.message_bytes_max,
      false
    )
    error_message = "sqs.message_bytes_max must be the queue's maximum message size, as aws sqs get-queue-attributes --attribute-names MaximumMessageSize says it (262144 if it is less), and at most 1048576, got ${jsonencode(try(var.sqs.message_bytes_max, null))}."
  }
}

variable "blobs" {
  description = "Whether events about objects of S3 become Microsoft.Storage.BlobCreated and BlobDeleted, with Event Grid's data, for handlers that were written for blobs."
  type        = bool
  default     = false
  nullable    = false
}

variable "content" {
  description = "How messages of applications (carries MESSAGES) are written: AUTO (JSON if it is JSON, otherwise text), TEXT, or BASE64 (bytes)."
  type        = string
  default     = "AUTO"
  nullable    = false

  validation {
    condition     = contains(["AUTO", "TEXT", "BASE64"], var.content)
    error_message = "content must be AUTO, TEXT or BASE64, got \"${var.content}\"."
  }
}

variable "event_type" {
  description = "Type of the events of messages (carries MESSAGES); null for com.amazonaws.sns.Notification or com.amazonaws.sqs.message."
  type        = string
  default     = null

  validation {
    condition     = var.event_type == null || can(regex("^[[:print:]]{1,256}$", var.event_type))
    error_message = "event_type must be 1 to 256 printable characters, got ${jsonencode(var.event_type)}."
  }
}

variable "concurrency" {
  description = "Batches of ten messages that are taken at the same time at most, 2 to 1000. It counts against the account's Lambda concurrency, besides what the deployment's queues use."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = contains(range(2, 1001), var.concurrency)
    error_message = "concurrency must be a whole number from 2 to 1000, got ${var.concurrency}."
  }
}

variable "batching_window_seconds" {
  description = "How long Lambda may wait for a batch to fill, 0 to 300 seconds: fewer invocations, later events."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = contains(range(0, 301), var.batching_window_seconds)
    error_message = "batching_window_seconds must be a whole number from 0 to 300, got ${var.batching_window_seconds}."
  }
}

variable "memory_mb" {
  description = "Memory of the function in MB, 128 to 10240; null for the deployment's memory_mb[\"intake\"]."
  type        = number
  default     = null
}
