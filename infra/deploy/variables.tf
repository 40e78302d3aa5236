# Written by infra/reference.py: what the module takes and gives, passed on.
# Each is described in the table of inputs in infra/README.md.

variable "account" {
  type    = any
  default = null
}

variable "name_prefix" { default = null }
variable "aws_endpoint_url" { default = null }

variable "tags" {
  type    = any
  default = null
}

variable "permissions_boundary_arn" { default = null }
variable "iam_path" { default = null }

variable "kms_key_arns" {
  type    = any
  default = null
}

variable "kms_former_key_arns" {
  type    = any
  default = null
}

variable "architecture" { default = null }
variable "functions_dir" { default = null }

variable "functions_sha256" {
  type    = any
  default = null
}

variable "functions_bucket" {
  type    = any
  default = null
}

variable "versions" { default = null }
variable "rollout" { default = null }

variable "live_versions" {
  type    = any
  default = null
}

variable "vpc" {
  type    = any
  default = null
}

variable "memory_mb" {
  type    = any
  default = null
}

variable "dispatch_timeout_seconds" { default = null }
variable "first_attempt_concurrency" { default = null }
variable "retry_concurrency" { default = null }
variable "fan_out_concurrency" { default = null }
variable "dead_letter_concurrency" { default = null }
variable "redrive_concurrency" { default = null }
variable "ingest_reserved_concurrency" { default = null }
variable "account_concurrency" { default = null }
variable "slow_concurrency" { default = null }
variable "slow_batch_size" { default = null }
variable "slow_window_seconds" { default = null }
variable "slow_after_ms" { default = null }
variable "late_response_share" { default = null }
variable "retry_queue_count" { default = null }
variable "retry_queues_sent_to" { default = null }
variable "retry_in_flight_limit" { default = null }
variable "queue_message_bytes_max" { default = null }
variable "inline_fan_out" { default = null }

variable "probation_seconds" {
  type    = any
  default = null
}

variable "dead_letter_delay_seconds" { default = null }
variable "dead_letter_batch_size" { default = null }
variable "dead_letter_window_seconds" { default = null }
variable "dead_letter_give_up_seconds" { default = null }
variable "dead_letter_topic" { default = null }

variable "dead_letter_bucket_arns" {
  type    = any
  default = null
}

variable "dead_letter_bucket_key_arns" {
  type    = any
  default = null
}

variable "dead_letter_retention_days" { default = null }
variable "config_cache_ms" { default = null }
variable "dispatch_config_cache_ms" { default = null }
variable "config_stale_seconds" { default = null }

variable "endpoint_allowed_networks" {
  type    = any
  default = null
}

variable "endpoint_allowed_ports" {
  type    = any
  default = null
}

variable "resource_destinations" {
  type    = any
  default = null
}

variable "aws_sources" { default = null }

variable "endpoint_secrets" {
  type    = any
  default = null
}

variable "endpoint_entra_client" {
  type    = any
  default = null
}

variable "endpoint_signed_hosts" {
  type    = any
  default = null
}

variable "endpoint_roles" {
  type    = any
  default = null
}

variable "endpoint_audiences" {
  type    = any
  default = null
}

variable "validation_origin" { default = null }
variable "publish_front_door" { default = null }

variable "publish_domain" {
  type    = any
  default = null
}

variable "manage_domain" {
  type    = any
  default = null
}

variable "default_endpoints" { default = null }
variable "publish_public_url" { default = null }

variable "origin_secret_sha256" {
  type    = any
  default = null
}

variable "publish_access_logs" { default = null }
variable "manage_access_logs" { default = null }
variable "publish_rate_limit" { default = null }
variable "publish_burst_limit" { default = null }
variable "publish_authorization" { default = null }
variable "publish_jwt_issuer" { default = null }

variable "publish_jwt_audience" {
  type    = any
  default = null
}

variable "manage_authorization" { default = null }
variable "protect_data" { default = null }
variable "latency_metrics" { default = null }
variable "metrics_by_event_subscription" { default = null }
variable "alarms" { default = null }
variable "dashboard" { default = null }
variable "alarm_failed_publishes" { default = null }
variable "alarm_due_retries" { default = null }
variable "alarm_failed_attempts_percent" { default = null }
variable "alarm_dead_letters" { default = null }
variable "alarm_queue_age_seconds" { default = null }
variable "log_successful_attempts" { default = null }
variable "tracing" { default = null }
variable "failed_response_bytes" { default = null }
variable "log_level" { default = null }
variable "log_retention_days" { default = null }

variable "alarm_topic_arns" {
  type    = any
  default = null
}

variable "alarm_ends" { default = null }
