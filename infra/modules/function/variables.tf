variable "name" {
  description = "Function name, at most 49 characters, because the role's name adds the region to it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9-]{1,49}$", var.name))
    error_message = "name must be 1 to 49 letters, digits and hyphens, got \"${var.name}\"."
  }
}

variable "settings" {
  description = "Settings that all functions of a deployment share: where they are, their tags, and what an organisation requires of roles and log groups."
  type = object({
    account = object({
      id        = string
      region    = string
      partition = string
    })
    # Instruction set that the executable was built for: arm64 or x86_64.
    architecture = string
    # Days that CloudWatch keeps the log, one of the periods that it supports.
    log_retention_days       = number
    tags                     = optional(map(string), {})
    permissions_boundary_arn = optional(string)
    iam_path                 = optional(string, "/")
    log_kms_key_arn          = optional(string)
    versions                 = optional(bool, false)
    rollout                  = optional(bool, false)
    tracing                  = optional(bool, false)
  })
  nullable = false
}

variable "description" {
  description = "One line that says what the function does, for the console."
  type        = string
  nullable    = false
}

variable "program" {
  description = "What the function runs: a zip that holds the executable, named bootstrap (a file, or an object in a bucket with its SHA-256 in base64), its memory in MB (128 to 10240; CPU grows with it, 1,769 MB are one vCPU), and its timeout. live_version is the one that the alias live points at, if settings.versions is set and Terraform moves the alias; null for the newest."
  type = object({
    package = object({
      file   = optional(string)
      bucket = optional(string)
      key    = optional(string)
      sha256 = optional(string)
    })
    memory_mb       = number
    timeout_seconds = number
    live_version    = optional(string)
  })
  nullable = false

  validation {
    condition     = var.program.timeout_seconds >= 1 && var.program.timeout_seconds <= 900
    error_message = "timeout_seconds must be 1 to 900, got ${var.program.timeout_seconds}."
  }
}

variable "reserved_concurrency" {
  description = "Concurrency reserved for this function, which it can't exceed; null for none."
  type        = number
  default     = null
}

variable "vpc" {
  description = "Subnets and security groups that the function's connections come from; null for Lambda's own network. Empty lists, too, but then Lambda may still remove the network interfaces that it has left."
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
    ipv6               = optional(bool, false)
  })
  default = null
}

variable "environment" {
  description = "Environment variables, names and values together at most 4,096 bytes."
  type        = map(string)
  nullable    = false
}

variable "statements" {
  description = "All permissions of the function except writing its own logs. No wildcard actions, and no statement for all resources where AWS can restrict it."
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
    # Patterns for the partition keys of a table's items.
    leading_keys = optional(list(string))
    # The only service through which a KMS key may be used.
    via_service = optional(string)
    # Whether a function may be invoked by its URL alone.
    via_function_url = optional(bool)
    # The only audiences that tokens may be had for. STS has no resources to restrict this to.
    token_audiences = optional(list(string))
  }))
  nullable = false

  validation {
    condition     = alltrue([for action in flatten(var.statements[*].actions) : !strcontains(action, "*")])
    error_message = "statements must name single actions, got ${jsonencode(flatten(var.statements[*].actions))}."
  }

  validation {
    condition = alltrue([
      for statement in var.statements :
      statement.token_audiences != null
      || tolist(statement.actions) == tolist(["logs:DescribeLogGroups", "logs:GetQueryResults"])
      || alltrue([for resource in statement.resources : startswith(resource, "arn:")])
    ])
    error_message = "statements must name resources by ARN, got ${jsonencode(flatten(var.statements[*].resources))}."
  }
}

variable "log_group_name" {
  description = "Existing log group that the function shares with others; null for one of its own."
  type        = string
  default     = null
}
