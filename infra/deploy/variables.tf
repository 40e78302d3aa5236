# Written by infra/reference.py: what the module takes and gives, passed on.

variable "account" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    id         = string
    region     = string
    partition  = optional(string, "aws")
    dns_suffix = optional(string, "amazonaws.com")
  })
  default = null
}

variable "name_prefix" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "aws_endpoint_url" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "tags" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(string)
  default     = null
}

variable "permissions_boundary_arn" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "iam_path" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "kms_key_arns" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    dynamodb = optional(string)
    s3       = optional(string)
    sqs      = optional(string)
    logs     = optional(string)
  })
  default = null
}

variable "kms_former_key_arns" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "architecture" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "functions_dir" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "functions_sha256" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(string)
  default     = null
}

variable "functions_bucket" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    name       = string
    key_prefix = optional(string, "")
    sha256     = map(string)
  })
  default = null
}

variable "versions" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "rollout" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "live_versions" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(string)
  default     = null
}

variable "vpc" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
    ipv6               = optional(bool, false)
  })
  default = null
}

variable "memory_mb" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(number)
  default     = null
}

variable "dispatch_timeout_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "first_attempt_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "fan_out_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dead_letter_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "redrive_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "ingest_reserved_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "account_concurrency" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_batch_size" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_window_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "slow_after_ms" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "late_response_share" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_queue_count" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_queues_sent_to" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "retry_in_flight_limit" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "queue_message_bytes_max" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "inline_fan_out" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "probation_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(number)
  default     = null
}

variable "dead_letter_delay_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dead_letter_batch_size" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dead_letter_window_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dead_letter_give_up_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dead_letter_topic" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "dead_letter_bucket_arns" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "dead_letter_bucket_key_arns" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "config_cache_ms" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "dispatch_config_cache_ms" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "config_stale_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "endpoint_allowed_networks" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "endpoint_allowed_ports" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "resource_destinations" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "aws_sources" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "endpoint_secrets" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(list(string))
  default     = null
}

variable "endpoint_entra_client" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = object({ client_id = string, secret = string })
  default     = null
}

variable "endpoint_signed_hosts" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(list(string))
  default     = null
}

variable "endpoint_roles" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(list(string))
  default     = null
}

variable "endpoint_audiences" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = map(list(string))
  default     = null
}

variable "validation_origin" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "publish_front_door" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "publish_domain" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    name            = string
    certificate_arn = string
    zone_id         = optional(string)
  })
  default = null
}

variable "manage_domain" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type = object({
    name            = string
    certificate_arn = string
    zone_id         = optional(string)
  })
  default = null
}

variable "default_endpoints" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "publish_access_logs" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "manage_access_logs" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "publish_rate_limit" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "publish_burst_limit" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "publish_authorization" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "publish_jwt_issuer" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "publish_jwt_audience" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}

variable "manage_authorization" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "protect_data" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "latency_metrics" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "metrics_by_event_subscription" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "alarms" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "dashboard" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "alarm_failed_publishes" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "alarm_due_retries" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "alarm_failed_attempts_percent" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "alarm_dead_letters" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "alarm_queue_age_seconds" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "log_successful_attempts" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "tracing" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = bool
  default     = null
}

variable "failed_response_bytes" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "log_level" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = number
  default     = null
}

variable "alarm_topic_arns" {
  description = "As in the module: see the table of inputs in infra/README.md."
  type        = list(string)
  default     = null
}
