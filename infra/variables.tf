# The order: placement, the functions, delivery, dead letters, configuration and endpoints, APIs, operation.

variable "account" {
  description = "Account id, region, partition and the suffix of AWS's host names. Null, the default, asks the provider. Set it if the module has depends_on: Terraform then reads data sources only at apply, treats every name that contains the account as unknown, and would replace the buckets."
  type = object({
    id         = string
    region     = string
    partition  = optional(string, "aws")
    dns_suffix = optional(string, "amazonaws.com")
  })
  default = null

  validation {
    condition     = var.account == null || can(regex("^[0-9]{12}$", var.account.id))
    error_message = "account.id must have 12 digits, got ${jsonencode(var.account)}."
  }

  validation {
    condition     = var.account == null || can(regex("^[a-z]{2,5}(-[a-z]+)+-[0-9]$", var.account.region))
    error_message = "account.region must be the code of an AWS region, such as eu-central-1, got ${jsonencode(var.account)}."
  }
}

variable "name_prefix" {
  description = "First part of every name, 2 to 20 characters: lower-case letters, digits and single hyphens, starting with a letter. Two deployments in one account and region need different prefixes. A longer prefix would not fit into the 63 characters of a bucket's name. Don't change it later: that replaces every queue and table, and with protect_data the apply fails."
  type        = string
  default     = "gridpost"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z](-?[a-z0-9])+$", var.name_prefix)) && length(var.name_prefix) <= 20
    error_message = "name_prefix must have 2 to 20 characters, small letters, digits and single hyphens, a letter first and no hyphen last, got \"${var.name_prefix}\"."
  }

  validation {
    condition     = !startswith("${var.name_prefix}-", "sthree-") && !startswith("${var.name_prefix}-", "amzn-s3-demo-")
    error_message = "name_prefix must not make names of buckets that begin with sthree- or amzn-s3-demo-, which S3 reserves, got \"${var.name_prefix}\"."
  }
}

variable "aws_endpoint_url" {
  description = "Base URL of an AWS emulator, such as http://127.0.0.1:4566, without a slash at the end. Null, the default, means AWS. If set, all API calls of Terraform and of the functions go there."
  type        = string
  default     = null

  validation {
    condition     = var.aws_endpoint_url == null || can(regex("^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$", var.aws_endpoint_url))
    error_message = "aws_endpoint_url must be null or http(s)://host[:port] without a path, got \"${coalesce(var.aws_endpoint_url, "null")}\"."
  }
}

variable "tags" {
  description = "Tags for every resource that supports them, in addition to application and gridpost:deployment."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for key in keys(var.tags) : !startswith(lower(key), "aws:")])
    error_message = "tags must not begin with aws:, which AWS reserves, got ${jsonencode(keys(var.tags))}."
  }

  validation {
    condition = length(var.tags) <= 48 && alltrue([
      for key, value in var.tags : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))
    ])
    error_message = "tags must be at most 48, with keys of 1 to 128 and values of up to 256 letters, digits, spaces and _ . : / = + - @ (IAM takes no others), got ${jsonencode(var.tags)}."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of all roles created here, if your organisation requires one. It must allow what the roles' own policies allow."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be null or the ARN of an IAM policy, got ${jsonencode(var.permissions_boundary_arn)}."
  }
}

variable "iam_path" {
  description = "Path of all roles created here, such as /platform/."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([!-~]+/)?$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "iam_path must begin and end with a slash, got \"${var.iam_path}\"."
  }
}

variable "kms_key_arns" {
  description = "ARNs of KMS keys of your own, by what they encrypt: dynamodb (both tables), s3 (both buckets), sqs (all queues), logs (all log groups). Anything left out is encrypted with AWS's own keys, which cost nothing. The functions' roles may use the keys of dynamodb, s3 and sqs through these services; the key's policy must let IAM decide (the default policy does), and the key for logs must allow logs.REGION.amazonaws.com to use it. Each key costs 1 dollar a month, and 0.03 dollars per 10,000 requests. If you change or remove the key of s3 or sqs, name the old one in kms_former_key_arns."
  type = object({
    dynamodb = optional(string)
    s3       = optional(string)
    sqs      = optional(string)
    logs     = optional(string)
  })
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for arn in values(var.kms_key_arns) : arn == null || can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", arn))
    ])
    error_message = "kms_key_arns must be ARNs of keys (not aliases), got ${jsonencode(var.kms_key_arns)}."
  }
}

variable "kms_former_key_arns" {
  description = "ARNs of KMS keys that kms_key_arns.s3 or kms_key_arns.sqs named before: the functions' roles may still decrypt with them, through these services. Messages and objects keep the key under which they were written. So when you change or remove a key there, name the old one here in the same apply, or the functions can't read what waits. Keep it here, and do not disable it, for 30 days, until queues and payloads have nothing of it, and for as long as you want to read and redrive dead letters that it encrypts."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for arn in var.kms_former_key_arns : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", arn))
    ])
    error_message = "kms_former_key_arns must be ARNs of keys (not aliases), got ${jsonencode(var.kms_former_key_arns)}."
  }
}

variable "architecture" {
  description = "Instruction set of the functions, arm64 or x86_64; it must match the zips. arm64 costs a fifth less."
  type        = string
  default     = "arm64"
  nullable    = false

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "architecture must be arm64 or x86_64, got \"${var.architecture}\"."
  }
}

variable "functions_dir" {
  description = "Directory that holds <function>.zip (as in a release) or <function>/bootstrap.zip for ingest, expand, dispatch (dispatch-resources with resource_destinations), dead-letter, redrive, manage, wake, and intake with aws_sources. Absolute, or relative to the root module, wherever Terraform is started. Null, the default, is where cargo lambda build puts them in this module's repository. Not with functions_bucket."
  type        = string
  default     = null

  validation {
    condition     = var.functions_dir == null || can(regex("[^/]$", var.functions_dir))
    error_message = "functions_dir must be null or a path without a slash at the end, got ${jsonencode(var.functions_dir)}."
  }
}

variable "functions_sha256" {
  description = "SHA-256 that the zips in functions_dir must have, by program, in base64: sha256 of a release's release.json. Empty, the default, accepts any zip. For a bucket, set functions_bucket.sha256 instead."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for hash in values(var.functions_sha256) : can(regex("^[A-Za-z0-9+/]{43}=$", hash))])
    error_message = "functions_sha256 must be SHA-256 sums in base64, 44 characters each, got ${jsonencode(var.functions_sha256)}."
  }
}

variable "functions_bucket" {
  description = "Takes the functions from a bucket of your own instead of a directory: the bucket's name (in the deployment's region), the prefix of the object keys, and the SHA-256 of each zip by program, in base64, as Lambda shows it (openssl dgst -sha256 -binary FILE | base64); release.json of a release has key_prefix and sha256. Objects are named <key_prefix><program>.zip. Required programs: ingest, expand, dispatch (or dispatch-resources with resource_destinations), dead-letter, redrive, manage and wake, and intake with aws_sources. For a new version set a new key_prefix and new hashes: Terraform updates a function when its hash changes."
  type = object({
    name       = string
    key_prefix = optional(string, "")
    sha256     = map(string)
  })
  default = null

  validation {
    condition = var.functions_bucket == null || alltrue([
      for hash in values(try(var.functions_bucket.sha256, {})) : can(regex("^[A-Za-z0-9+/]{43}=$", hash))
    ])
    error_message = "functions_bucket.sha256 must be SHA-256 sums in base64, 44 characters each, got ${jsonencode(try(var.functions_bucket.sha256, null))}."
  }

  validation {
    condition = var.functions_bucket == null || alltrue([
      for program in ["ingest", "expand", "dead-letter", "redrive", "manage", "wake"] : contains(keys(try(var.functions_bucket.sha256, {})), program)
    ])
    error_message = "functions_bucket.sha256 must name ingest, expand, dead-letter, redrive, manage and wake, and dispatch or dispatch-resources, got ${jsonencode(keys(try(var.functions_bucket.sha256, {})))}."
  }
}

variable "versions" {
  description = "Whether each change of a function publishes a version, and everything invokes the alias live: live_versions then goes back to an older version in seconds. If your own callers invoke manage by name, let them use its ARN (function_arns) instead."
  type        = bool
  default     = false
  nullable    = false
}

variable "rollout" {
  description = "Whether gridpost rollout, not Terraform, moves the aliases live: an apply then publishes a version that no event invokes, and the command shifts the aliases to it in steps while it watches the alarms. The first apply points them at the first version. Needs versions; not with live_versions. An existing deployment needs terraform state mv first (docs/upgrades.md)."
  type        = bool
  default     = false
  nullable    = false
}

variable "live_versions" {
  description = "Versions that the aliases live point at, by function, if not the newest. To go back, set the number of the previous version until the newest is fixed. A version keeps its environment and program, but not its role, queues and tables. Needs versions."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.live_versions), ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"])) == 0 && alltrue([for version in values(var.live_versions) : can(regex("^[0-9]+$", version))])
    error_message = "live_versions must be numbers of versions by function (ingest, expand, dispatch, dead-letter, redrive, manage, wake), got ${jsonencode(var.live_versions)}."
  }
}

variable "vpc" {
  description = "Subnets and security groups for dispatch, which calls endpoints, and manage, which asks them for consent; null, the default, uses Lambda's own network. Set it to reach endpoints in private networks (name them in endpoint_allowed_networks too) or to have a fixed source address (that of the subnets' NAT gateway). The subnets must reach AWS's services: through a NAT gateway, or through VPC endpoints for SQS and Lambda and gateway endpoints for DynamoDB and S3; with endpoint_secrets or endpoint_entra_client also through VPC endpoints for Secrets Manager or SSM, with endpoint_roles or endpoint_audiences for STS, with resource_destinations for those of SNS, Kinesis Data Streams and EventBridge that it names. An internet gateway alone is not enough: Lambda has no public address there. ipv6: also use IPv6, if the subnets have it. To leave the subnets, or before a destroy, first apply empty lists, and wait 20 minutes: infra/README.md says why."
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
    ipv6               = optional(bool, false)
  })
  default = null

  validation {
    condition = var.vpc == null || (
      alltrue([for id in try(var.vpc.subnet_ids, []) : can(regex("^subnet-[0-9a-z]+$", id))])
      && alltrue([for id in try(var.vpc.security_group_ids, []) : can(regex("^sg-[0-9a-z]+$", id))])
      && (length(try(var.vpc.subnet_ids, [])) == 0) == (length(try(var.vpc.security_group_ids, [])) == 0)
    )
    error_message = "vpc must have at least one subnet (subnet-...) and one security group (sg-...), or neither while the functions leave the network, got ${jsonencode(var.vpc)}."
  }
}

variable "memory_mb" {
  description = "Memory per function in MB, 128 to 10240, for functions that need another value than the default: ingest, expand, dispatch, dead-letter, redrive and intake have 512, manage and wake 256. CPU grows with memory (1,769 MB are one vCPU), so more memory may be faster at the same cost."
  type        = map(number)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.memory_mb), ["ingest", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake", "intake"])) == 0
    error_message = "memory_mb must name functions only (ingest, expand, dispatch, dead-letter, redrive, manage, wake, intake), got ${jsonencode(keys(var.memory_mb))}."
  }

  validation {
    condition     = alltrue([for mb in values(var.memory_mb) : mb >= 128 && mb <= 10240 && floor(mb) == mb])
    error_message = "memory_mb must be whole numbers from 128 to 10240, got ${jsonencode(var.memory_mb)}."
  }
}

variable "dispatch_timeout_seconds" {
  description = "Timeout of dispatch in seconds, 60 to 900. An attempt waits 15 s for a token if it needs one and 30 s for its response, and a late response still counts for 3 minutes after the request was sent: the default leaves time for both. A lower timeout gives up on late responses earlier, and costs less while endpoints are slow. Queues hide messages that are being attempted for 30 s longer."
  type        = number
  default     = 210
  nullable    = false

  validation {
    condition = (
      var.dispatch_timeout_seconds >= 60 && var.dispatch_timeout_seconds <= 900
      && floor(var.dispatch_timeout_seconds) == var.dispatch_timeout_seconds
    )
    error_message = "dispatch_timeout_seconds must be a whole number from 60 to 900, got ${var.dispatch_timeout_seconds}."
  }
}

variable "first_attempt_concurrency" {
  description = "Most concurrent invocations of dispatch for first attempts, 2 to 1000 (Lambda's own limits), each with up to 10 deliveries. An endpoint that stops answering occupies one for each of its events until it is marked as slow, after about a second: at 500 events a second some 300. See account_concurrency."
  type        = number
  default     = 550
  nullable    = false

  validation {
    condition = (
      var.first_attempt_concurrency >= 2 && var.first_attempt_concurrency <= 1000
      && floor(var.first_attempt_concurrency) == var.first_attempt_concurrency
    )
    error_message = "first_attempt_concurrency must be a whole number from 2 to 1000, got ${var.first_attempt_concurrency}."
  }
}

variable "retry_concurrency" {
  description = "Most concurrent invocations of dispatch per retry queue, 2 to 1000 (Lambda's own limits), each with up to ten deliveries, which wait for no others. Retries to slow endpoints are in the slow queue (slow_concurrency)."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition = (
      var.retry_concurrency >= 2 && var.retry_concurrency <= 1000
      && floor(var.retry_concurrency) == var.retry_concurrency
    )
    error_message = "retry_concurrency must be a whole number from 2 to 1000, got ${var.retry_concurrency}."
  }
}

variable "fan_out_concurrency" {
  description = "Most concurrent invocations of expand, which makes the deliveries of large publishes, 2 to 1000 (Lambda's own limits). A few make ten thousand deliveries a second."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.fan_out_concurrency >= 2 && var.fan_out_concurrency <= 1000 && floor(var.fan_out_concurrency) == var.fan_out_concurrency
    error_message = "fan_out_concurrency must be a whole number from 2 to 1000, got ${var.fan_out_concurrency}."
  }
}

variable "dead_letter_concurrency" {
  description = "Most concurrent invocations of dead-letter, 2 to 1000 (Lambda's own limits). A low number makes fewer and fuller objects."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.dead_letter_concurrency >= 2 && var.dead_letter_concurrency <= 1000 && floor(var.dead_letter_concurrency) == var.dead_letter_concurrency
    error_message = "dead_letter_concurrency must be a whole number from 2 to 1000, got ${var.dead_letter_concurrency}."
  }
}

variable "redrive_concurrency" {
  description = "Most redrive jobs that run at the same time, 2 to 1000 (Lambda's own limits). 0 stops them: jobs wait in their queue, up to 14 days, until it is raised; for an account that has no concurrency to spare."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition = var.redrive_concurrency == 0 || (
      var.redrive_concurrency >= 2 && var.redrive_concurrency <= 1000
      && floor(var.redrive_concurrency) == var.redrive_concurrency
    )
    error_message = "redrive_concurrency must be 0 or a whole number from 2 to 1000, got ${var.redrive_concurrency}."
  }
}

variable "ingest_reserved_concurrency" {
  description = "Concurrency reserved for ingest, 2 to 10000: other functions of the account can't use it, and ingest can't exceed it. Null, the default, reserves none. Lambda leaves at least 100 of an account unreserved."
  type        = number
  default     = null

  validation {
    condition = var.ingest_reserved_concurrency == null || try(
      var.ingest_reserved_concurrency >= 2 && var.ingest_reserved_concurrency <= 10000
      && floor(var.ingest_reserved_concurrency) == var.ingest_reserved_concurrency, false
    )
    error_message = "ingest_reserved_concurrency must be null or a whole number from 2 to 10000, got ${jsonencode(var.ingest_reserved_concurrency)}."
  }
}

variable "account_concurrency" {
  description = "The account's quota of concurrent executions in this region, at least 10: 1,000 unless raised, 10 in a new account (aws lambda get-account-settings). The sum of these must fit into it and leave two, for a publish and for wake: first_attempt_concurrency, retry_queue_count times retry_concurrency, slow_concurrency, fan_out_concurrency, dead_letter_concurrency, redrive_concurrency and ingest_reserved_concurrency."
  type        = number
  default     = 1000
  nullable    = false

  validation {
    condition     = var.account_concurrency >= 10 && floor(var.account_concurrency) == var.account_concurrency
    error_message = "account_concurrency must be a whole number of at least 10, got ${var.account_concurrency}."
  }
}

variable "slow_concurrency" {
  description = "Most concurrent invocations of dispatch for the slow queue, which has what is held back for slow endpoints, 2 to 1000 (Lambda's own limits), each with up to slow_batch_size deliveries. With 0 nothing goes there: slow endpoints share the retry queues, in batches of ten, and an outage costs more invocations; what the queue holds moves to them, by two invocations at most."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition = var.slow_concurrency == 0 || (
      var.slow_concurrency >= 2 && var.slow_concurrency <= 1000
      && floor(var.slow_concurrency) == var.slow_concurrency
    )
    error_message = "slow_concurrency must be 0 or a whole number from 2 to 1000, got ${var.slow_concurrency}."
  }
}

variable "slow_batch_size" {
  description = "Most deliveries that one invocation of dispatch takes from the slow queue, 1 to 1000. Requests to slow endpoints share an invocation, which lasts as long as the slowest of them. Lambda hands over at most 6 MB, whatever is set here. Of deliveries whose events lie in the payload bucket an invocation fetches 20, of 3 MiB at most each, and the others wait for another one."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition = (
      var.slow_batch_size >= 1 && var.slow_batch_size <= 1000
      && floor(var.slow_batch_size) == var.slow_batch_size
    )
    error_message = "slow_batch_size must be a whole number from 1 to 1000, got ${var.slow_batch_size}."
  }
}

variable "slow_window_seconds" {
  description = "Seconds that Lambda waits to fill a batch from the slow queue, 0 to 20; at least 1 if slow_batch_size is over 10. Where few messages come, Lambda waits 20 s even with a shorter window. Only slow endpoints' events wait."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition = (
      var.slow_window_seconds >= 0 && var.slow_window_seconds <= 20
      && floor(var.slow_window_seconds) == var.slow_window_seconds
    )
    error_message = "slow_window_seconds must be a whole number from 0 to 20, got ${var.slow_window_seconds}."
  }
}

variable "slow_after_ms" {
  description = "Milliseconds without a response after which a request counts as slow, 100 to 30000. Two slow requests within ten seconds mark an endpoint as slow: its events then go to the slow queue without an attempt, and its requests under way are counted and limited there."
  type        = number
  default     = 500
  nullable    = false

  validation {
    condition = (
      var.slow_after_ms >= 100 && var.slow_after_ms <= 30000
      && floor(var.slow_after_ms) == var.slow_after_ms
    )
    error_message = "slow_after_ms must be a whole number from 100 to 30000, got ${var.slow_after_ms}."
  }
}

variable "late_response_share" {
  description = "Share of a queue's concurrent invocations that may wait for responses that come after 30 s, 0 to 1, rounded up. They wait only while the queue is quiet. With 0, a response after 30 s never removes a delivery from retry."
  type        = number
  default     = 0.1
  nullable    = false

  validation {
    condition     = var.late_response_share >= 0 && var.late_response_share <= 1
    error_message = "late_response_share must be a number from 0 to 1, got ${var.late_response_share}."
  }
}

variable "retry_queue_count" {
  description = "Number of retry queues, 1 to 32. Each can hold 120,000 hidden messages (SQS, standard queue), so three let about 360,000 failing deliveries wait before parking. Lowering it destroys the queues with the highest numbers with all that they hold: empty them before, by retry_queues_sent_to."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = contains(range(1, 33), var.retry_queue_count)
    error_message = "retry_queue_count must be a whole number from 1 to 32, got ${var.retry_queue_count}."
  }
}

variable "retry_queues_sent_to" {
  description = "Number of retry queues that get messages, from the first on, 1 to retry_queue_count; null for all. To lower retry_queue_count without a loss, set this to the new number and apply; the queues behind it are still read, and what waits there moves on when it is due, within 12 hours. Once they are empty (aws sqs get-queue-attributes: all three counts are 0), lower retry_queue_count and set this to null."
  type        = number
  default     = null

  validation {
    condition     = var.retry_queues_sent_to == null || contains(range(1, var.retry_queue_count + 1), coalesce(var.retry_queues_sent_to, 1))
    error_message = "retry_queues_sent_to must be a whole number from 1 to retry_queue_count (${var.retry_queue_count}), got ${coalesce(var.retry_queues_sent_to, 0)}."
  }
}

variable "retry_in_flight_limit" {
  description = "Hidden messages in a retry queue or the slow queue from which deliveries that wait over 15 minutes are parked in DynamoDB instead, 0 to 120000 (SQS's quota). 0 parks every long wait. From 90000 on, waits of over 3 minutes are parked too. The default is half the quota, because the count is sampled and lags."
  type        = number
  default     = 60000
  nullable    = false

  validation {
    condition = (
      var.retry_in_flight_limit >= 0 && var.retry_in_flight_limit <= 120000
      && floor(var.retry_in_flight_limit) == var.retry_in_flight_limit
    )
    error_message = "retry_in_flight_limit must be a whole number from 0 to 120000, got ${var.retry_in_flight_limit}."
  }
}

variable "queue_message_bytes_max" {
  description = "Largest queue message in bytes, 229376 to 1048576 (SQS's limit). Over 262144 needs AWS provider 6.8 or later. An event that does not fit into a message goes through the payload bucket. If it is lowered, the events of what waits already go there, too, when its message is sent on."
  type        = number
  default     = 262144
  nullable    = false

  validation {
    condition = (
      var.queue_message_bytes_max >= 229376 && var.queue_message_bytes_max <= 1048576
      && floor(var.queue_message_bytes_max) == var.queue_message_bytes_max
    )
    error_message = "queue_message_bytes_max must be a whole number from 229376 to 1048576, got ${var.queue_message_bytes_max}."
  }
}

variable "inline_fan_out" {
  description = "Most deliveries of one publish that are enqueued before it is answered, 0 to 100000: one for each event and event subscription that matches it, where events that share a batch count once. A publish that makes more deliveries, or messages of more than 64 MiB, is stored, answered, and expanded from a queue in pieces; 0 does so with every publish. A request has 29 s (API Gateway), and a function of the default size enqueues some 2,000 deliveries a second."
  type        = number
  default     = 10000
  nullable    = false

  validation {
    condition     = var.inline_fan_out >= 0 && var.inline_fan_out <= 100000 && floor(var.inline_fan_out) == var.inline_fan_out
    error_message = "inline_fan_out must be a whole number from 0 to 100000, got ${var.inline_fan_out}."
  }
}

variable "probation_seconds" {
  description = "Seconds that an endpoint is on probation after a failed attempt, by outcome, 0 to 86400; only for outcomes that need another value than the default. Defaults are Event Grid's: Busy 10, TimedOut 10, SocketError 30, NotFound, ResolutionError, Disabled, Full, Unauthorized and Forbidden 300, InvalidFunctionDestination 600."
  type        = map(number)
  default     = {}
  nullable    = false

  validation {
    condition = length(setsubtract(keys(var.probation_seconds), [
      "Busy", "TimedOut", "SocketError", "NotFound", "ResolutionError", "Disabled", "Full", "Unauthorized", "Forbidden",
      "InvalidFunctionDestination",
    ])) == 0
    error_message = "probation_seconds must name outcomes that lead to probation (Busy, TimedOut, SocketError, NotFound, ResolutionError, Disabled, Full, Unauthorized, Forbidden, InvalidFunctionDestination), got ${jsonencode(keys(var.probation_seconds))}."
  }

  validation {
    condition     = alltrue([for s in values(var.probation_seconds) : s >= 0 && s <= 86400 && floor(s) == s])
    error_message = "probation_seconds must be whole numbers from 0 to 86400, got ${jsonencode(var.probation_seconds)}."
  }
}

variable "dead_letter_delay_seconds" {
  description = "Seconds between the end of a delivery and the writing of its dead letter, 0 to 900 (SQS's longest delay). Deliveries that end in the meantime share one object. The default, five minutes, is Event Grid's."
  type        = number
  default     = 300
  nullable    = false

  validation {
    condition = (
      var.dead_letter_delay_seconds >= 0 && var.dead_letter_delay_seconds <= 900
      && floor(var.dead_letter_delay_seconds) == var.dead_letter_delay_seconds
    )
    error_message = "dead_letter_delay_seconds must be a whole number from 0 to 900, got ${var.dead_letter_delay_seconds}."
  }
}

variable "dead_letter_batch_size" {
  description = "Most deliveries that one invocation of dead-letter gathers into objects, 1 to 10000. Every object costs one S3 request. Lambda hands over at most 6 MB, whatever is set here."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition = (
      var.dead_letter_batch_size >= 1 && var.dead_letter_batch_size <= 10000
      && floor(var.dead_letter_batch_size) == var.dead_letter_batch_size
    )
    error_message = "dead_letter_batch_size must be a whole number from 1 to 10000, got ${var.dead_letter_batch_size}."
  }
}

variable "dead_letter_window_seconds" {
  description = "Seconds that Lambda waits to fill a batch for dead-letter, 0 to 300; at least 1 if dead_letter_batch_size is over 10. This adds to dead_letter_delay_seconds."
  type        = number
  default     = 20
  nullable    = false

  validation {
    condition = (
      var.dead_letter_window_seconds >= 0 && var.dead_letter_window_seconds <= 300
      && floor(var.dead_letter_window_seconds) == var.dead_letter_window_seconds
    )
    error_message = "dead_letter_window_seconds must be a whole number from 0 to 300, got ${var.dead_letter_window_seconds}."
  }
}

variable "dead_letter_give_up_seconds" {
  description = "Seconds after which a dead letter that S3 refuses is dropped, counted and logged, 60 to 604800 (a week, half of the queue's retention). The default, four hours, is Event Grid's."
  type        = number
  default     = 14400
  nullable    = false

  validation {
    condition = (
      var.dead_letter_give_up_seconds >= 60 && var.dead_letter_give_up_seconds <= 604800
      && floor(var.dead_letter_give_up_seconds) == var.dead_letter_give_up_seconds
    )
    error_message = "dead_letter_give_up_seconds must be a whole number from 60 to 604800, got ${var.dead_letter_give_up_seconds}."
  }
}

variable "dead_letter_topic" {
  description = "Name of a topic that gets an event for each dead-letter object that is written, 3 to 50 of A-Z, a-z, 0-9 and '-'; null for none. It is a topic like any other: create it, and give it event subscriptions. Its own dead letters raise no further events."
  type        = string
  default     = null

  validation {
    condition     = var.dead_letter_topic == null || can(regex("^[A-Za-z0-9-]{3,50}$", var.dead_letter_topic))
    error_message = "dead_letter_topic must be 3 to 50 of A-Z, a-z, 0-9 and '-', or null, got ${jsonencode(var.dead_letter_topic)}."
  }
}

variable "dead_letter_bucket_arns" {
  description = "ARNs of further buckets that event subscriptions may name as dead-letter destination, besides the deployment's own. If a bucket has a customer key, in whatever account, name that in dead_letter_bucket_key_arns: else S3 refuses dead letters, which are dropped after dead_letter_give_up_seconds. A bucket in another account must allow s3:PutObject to the role of output dead_letter_role_arn, and its customer key kms:GenerateDataKey. To list, redrive and purge dead letters there, it must also allow s3:ListBucket and s3:GetObject to the roles of outputs redrive_role_arn and manage_role_arn, and s3:DeleteObject to the latter (a customer key: kms:Decrypt). Remove a bucket here only when no event subscription names it any more and every delivery that ended before has been written: else its dead letters are refused and dropped in the same way."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for arn in var.dead_letter_bucket_arns : can(regex("^arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", arn))
    ])
    error_message = "dead_letter_bucket_arns must be ARNs of whole buckets, such as arn:aws:s3:::my-dead-letters, got ${jsonencode(var.dead_letter_bucket_arns)}."
  }
}

variable "dead_letter_bucket_key_arns" {
  description = "ARNs of the customer keys that encrypt the buckets of dead_letter_bucket_arns: dead-letter may write with them (kms:GenerateDataKey), redrive and manage may read with them (kms:Decrypt), through S3. The key's policy must let IAM decide, as the default policy does; that of a key in another account must name the roles."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for arn in var.dead_letter_bucket_key_arns : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", arn))
    ])
    error_message = "dead_letter_bucket_key_arns must be ARNs of keys (not aliases), got ${jsonencode(var.dead_letter_bucket_key_arns)}."
  }
}

variable "dead_letter_retention_days" {
  description = "Days after which S3 deletes dead letters from the deployment's own bucket, 1 to 3650. They hold events, perhaps with personal data, and are the last copy: null, the default, keeps them until you delete them. Buckets of dead_letter_bucket_arns have rules of their own."
  type        = number
  default     = null

  validation {
    condition = var.dead_letter_retention_days == null || try(
      var.dead_letter_retention_days >= 1 && var.dead_letter_retention_days <= 3650
      && floor(var.dead_letter_retention_days) == var.dead_letter_retention_days, false
    )
    error_message = "dead_letter_retention_days must be null or a whole number from 1 to 3650, got ${coalesce(var.dead_letter_retention_days, "null")}."
  }
}

variable "config_cache_ms" {
  description = "Milliseconds for which ingest uses configuration that it has read, 0 to 10000. manage waits as long before it answers a change, so every publish after the answer sees the change. A longer time would leave manage no time to answer."
  type        = number
  default     = 2000
  nullable    = false

  validation {
    condition = (
      var.config_cache_ms >= 0 && var.config_cache_ms <= 10000 && floor(var.config_cache_ms) == var.config_cache_ms
    )
    error_message = "config_cache_ms must be a whole number from 0 to 10000, got ${var.config_cache_ms}."
  }
}

variable "dispatch_config_cache_ms" {
  description = "Milliseconds for which dispatch uses configuration that it has read, 0 to 60000. It may learn that late that an event subscription has changed or is gone. Events that were published after a change are always delivered by the new configuration."
  type        = number
  default     = 10000
  nullable    = false

  validation {
    condition = (
      var.dispatch_config_cache_ms >= 0 && var.dispatch_config_cache_ms <= 60000 && floor(var.dispatch_config_cache_ms) == var.dispatch_config_cache_ms
    )
    error_message = "dispatch_config_cache_ms must be a whole number from 0 to 60000, got ${var.dispatch_config_cache_ms}."
  }
}

variable "config_stale_seconds" {
  description = "How old configuration may be, in seconds, to be used while the table can't be read, 0 to 3600. After that, publishes are answered with 503, and deliveries wait."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition = (
      var.config_stale_seconds >= 0 && var.config_stale_seconds <= 3600 && floor(var.config_stale_seconds) == var.config_stale_seconds
    )
    error_message = "config_stale_seconds must be a whole number from 0 to 3600, got ${var.config_stale_seconds}."
  }
}

variable "endpoint_allowed_networks" {
  description = "Networks (CIDR, IPv4 or IPv6) in which endpoints may have private addresses and use plain http. Empty, the default, allows https to public addresses only. Anyone who may create event subscriptions can reach into the networks listed here."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for network in var.endpoint_allowed_networks : can(cidrhost(network, 0))])
    error_message = "endpoint_allowed_networks must be networks in CIDR notation, such as 10.1.0.0/16, got ${jsonencode(var.endpoint_allowed_networks)}."
  }
}

variable "endpoint_allowed_ports" {
  description = "Ports that endpoints may use, each a port (1 to 65535) or a range such as 1024-65535; at most 20. The default excludes ports below 1024 that other protocols use, such as mail and remote shells."
  type        = list(string)
  default     = ["80", "443", "1024-65535"]
  nullable    = false

  validation {
    condition = (
      length(var.endpoint_allowed_ports) >= 1 && length(var.endpoint_allowed_ports) <= 20
      && alltrue([
        for ports in var.endpoint_allowed_ports :
        can(regex("^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$", ports))
        && alltrue([for port in split("-", ports) : try(tonumber(port), 65536) <= 65535])
        && try(tonumber(split("-", ports)[0]) <= tonumber(reverse(split("-", ports))[0]), false)
      ])
    )
    error_message = "endpoint_allowed_ports must be 1 to 20 ports (1 to 65535) or ranges such as 1024-65535, got ${jsonencode(var.endpoint_allowed_ports)}."
  }
}

variable "resource_destinations" {
  description = "AWS resources that event subscriptions may deliver to, in addition to webhooks: ARNs of Lambda functions (or their aliases), SQS queues, SNS topics, Kinesis data streams and EventBridge event buses in the deployment's region; * means any characters in the last part, as in arn:aws:sqs:eu-central-1:123456789012:orders-*. dispatch may send to exactly these, and check whether they exist; an event subscription to any other resource, or to a missing one, is refused. Resources in other accounts must allow dispatch's role in their own policies. If any is set, the larger program dispatch-resources is deployed instead of dispatch."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = alltrue([
      for arn in var.resource_destinations : can(regex(
        "^arn:aws[a-z-]*:(lambda:[a-z0-9-]+:[0-9]{12}:function:|sqs:[a-z0-9-]+:[0-9]{12}:|sns:[a-z0-9-]+:[0-9]{12}:|kinesis:[a-z0-9-]+:[0-9]{12}:stream/|events:[a-z0-9-]+:[0-9]{12}:event-bus/)[A-Za-z0-9_.*:/$-]+$",
        arn,
      ))
    ])
    error_message = "resource_destinations must be ARNs of Lambda functions (…:function:NAME), SQS queues, SNS topics, Kinesis streams (…:stream/NAME) and event buses (…:event-bus/NAME) with service, region and account written out, got ${jsonencode(var.resource_destinations)}."
  }

  validation {
    # manage gets them in its environment, which holds at most 4 KB (Lambda).
    condition     = length(join("\",\"", var.resource_destinations)) <= 2000
    error_message = "resource_destinations must have at most 2000 characters together, got ${length(join("\",\"", var.resource_destinations))}: use patterns with *."
  }
}

variable "aws_sources" {
  description = "Whether AWS services publish into topics: modules/aws-source then brings EventBridge rules, S3 buckets, SNS topics and SQS queues in, each with a queue and a function (program intake) of its own. It creates nothing but a log group."
  type        = bool
  default     = false
  nullable    = false
}

variable "endpoint_secrets" {
  description = "Client secrets, private keys and client certificates that event subscriptions may authenticate with without having them: ARNs of Secrets Manager secrets (whole, with the six characters at their end) and of SSM parameters, each with the hosts of token URLs that may be sent it, or of endpoints that may be shown the certificate. dispatch and manage are granted to read exactly these; an event subscription that names another one, or a URL of another host, is refused. Who may write event subscriptions may have tokens made with these secrets and private keys, and sent to endpoints of their choice. A secret under a key of your own: the key's policy must allow both roles to decrypt."
  type        = map(list(string))
  default     = {}
  nullable    = false

  validation {
    condition = alltrue([
      for arn in keys(var.endpoint_secrets) : can(regex(
        "^arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:|ssm:[a-z0-9-]+:[0-9]{12}:parameter/)[A-Za-z0-9/_+=.@-]+$", arn,
      ))
    ])
    error_message = "endpoint_secrets must be named by ARNs of Secrets Manager (…:secret:NAME-AbCdEf) or of SSM (…:parameter/NAME), got ${jsonencode(keys(var.endpoint_secrets))}."
  }

  validation {
    condition = alltrue([
      for hosts in values(var.endpoint_secrets) :
      length(hosts) > 0 && alltrue([for host in hosts : can(regex("^[A-Za-z0-9.-]+$", host))])
    ])
    error_message = "endpoint_secrets must have at least one host for each secret, such as login.microsoftonline.com: names without scheme, port and path."
  }

  validation {
    # The functions get them in their environment, which has 4 KB in all (Lambda).
    condition     = length(jsonencode(var.endpoint_secrets)) <= 1500
    error_message = "endpoint_secrets must have at most 1500 characters together, as JSON, got ${length(jsonencode(var.endpoint_secrets))}."
  }
}

variable "endpoint_entra_client" {
  description = "The deployment's own client of Microsoft Entra ID (client_id), and the ARN of its secret in Secrets Manager or SSM. With it, event subscriptions may name azureActiveDirectoryTenantId and azureActiveDirectoryApplicationIdOrUri alone, as Event Grid's do: the token is asked for in its name. Who may write event subscriptions may have tokens of this client, for any application and tenant, sent to endpoints of their choice: give it no more rights than they may have. Null: such event subscriptions are refused."
  type        = object({ client_id = string, secret = string })
  default     = null

  validation {
    condition = var.endpoint_entra_client == null || can(regex(
      "^arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:|ssm:[a-z0-9-]+:[0-9]{12}:parameter/)[A-Za-z0-9/_+=.@-]+$",
      var.endpoint_entra_client.secret,
    ))
    error_message = "endpoint_entra_client.secret must be the ARN of a Secrets Manager secret (…:secret:NAME-AbCdEf) or of an SSM parameter (…:parameter/NAME)."
  }

  validation {
    condition     = var.endpoint_entra_client == null || can(regex("^[A-Za-z0-9-]{1,100}$", var.endpoint_entra_client.client_id))
    error_message = "endpoint_entra_client.client_id must be the id of an application: letters, digits and hyphens."
  }
}

variable "endpoint_signed_hosts" {
  description = "Hosts that dispatch and manage may sign requests to (Signature Version 4) in their own name, each with what is invoked there: ARNs of API Gateway (arn:aws:execute-api:REGION:ACCOUNT:API/STAGE/POST/PATH; handshakes of CloudEvents also need OPTIONS) or of functions with a URL. Both roles are granted to invoke exactly these. Who may write event subscriptions chooses path, query and headers of such requests, and publishers their bodies: name no API that trusts this deployment with more, such as the deployment's own. Event subscriptions that ask for signatures to another host are refused. The deployment's own domains and its manage API are refused."
  type        = map(list(string))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for host in keys(var.endpoint_signed_hosts) : can(regex("^[A-Za-z0-9.-]+$", host))])
    error_message = "endpoint_signed_hosts must be names without scheme, port, path and wildcard, such as a1b2c3.execute-api.eu-central-1.amazonaws.com, got ${jsonencode(keys(var.endpoint_signed_hosts))}."
  }

  validation {
    # Signatures are made for no other service, so a host of another one would be a mistake.
    condition     = alltrue([for host in keys(var.endpoint_signed_hosts) : !can(regex("^[a-z0-9-]+([.][a-z]+-[a-z-]+-[0-9])?[.](amazonaws[.]com([.]cn)?|api[.]aws)[.]?$", lower(host)))])
    error_message = "endpoint_signed_hosts must be hosts of APIs and function URLs, not of AWS's services themselves, got ${jsonencode(keys(var.endpoint_signed_hosts))}."
  }

  validation {
    condition = alltrue([
      for arns in values(var.endpoint_signed_hosts) : length(arns) > 0 && alltrue([
        for arn in arns : can(regex(
          "^arn:aws[a-z-]*:(execute-api:[a-z0-9-]+:[0-9]{12}:[a-z0-9]+/[A-Za-z0-9/_.*$-]+|lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_-]+(:[A-Za-z0-9_$-]+)?)$", arn,
        ))
      ])
    ])
    error_message = "endpoint_signed_hosts must have for each host what is invoked there: ARNs of API Gateway (arn:aws:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH) or of functions (…:function:NAME), got ${jsonencode(values(var.endpoint_signed_hosts))}."
  }

  validation {
    # The functions get them in their environment, which has 4 KB in all (Lambda).
    condition     = length(jsonencode([keys(var.endpoint_signed_hosts), var.endpoint_roles, var.endpoint_audiences])) <= 1200
    error_message = "The hosts of endpoint_signed_hosts, endpoint_roles and endpoint_audiences must have at most 1200 characters together, as JSON, got ${length(jsonencode([keys(var.endpoint_signed_hosts), var.endpoint_roles, var.endpoint_audiences]))}."
  }
}

variable "endpoint_roles" {
  description = "ARNs of roles that event subscriptions may have requests signed with (Signature Version 4), each with the hosts that such requests may go to. dispatch and manage are granted to assume exactly these, and the roles must trust both. Who may write event subscriptions chooses path, query and headers of such requests, for any service: give a role no more than what its hosts are called for."
  type        = map(list(string))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for arn in keys(var.endpoint_roles) : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9/_+=,.@-]+$", arn))])
    error_message = "endpoint_roles must be named by ARNs of roles (arn:aws:iam::ACCOUNT:role/NAME), got ${jsonencode(keys(var.endpoint_roles))}."
  }

  validation {
    condition = alltrue([
      for hosts in values(var.endpoint_roles) :
      length(hosts) > 0 && alltrue([for host in hosts : can(regex("^[A-Za-z0-9.-]+$", host))])
    ])
    error_message = "endpoint_roles must have at least one host for each role: names without scheme, port, path and wildcard."
  }
}

variable "endpoint_audiences" {
  description = "Audiences for which event subscriptions may have tokens that AWS signs (OIDC, STS GetWebIdentityToken), each with the hosts that may be sent them: who receives a token could show it to others. For a token that Entra ID exchanges (api://AzureADTokenExchange by default) name login.microsoftonline.com and the endpoints that may be sent what it gives; such a token itself goes to Entra ID alone. dispatch and manage are granted tokens for exactly these; the account must have outbound web identity federation enabled (iam:EnableOutboundWebIdentityFederation)."
  type        = map(list(string))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for audience in keys(var.endpoint_audiences) : can(regex("^[!-~]{1,1000}$", audience)) && !can(regex("[*?$]", audience))])
    error_message = "endpoint_audiences must be audiences of 1 to 1000 printable characters without spaces, '*', '?' and '$', got ${jsonencode(keys(var.endpoint_audiences))}."
  }

  validation {
    condition = alltrue([
      for hosts in values(var.endpoint_audiences) :
      length(hosts) > 0 && alltrue([for host in hosts : can(regex("^[A-Za-z0-9.-]+$", host))])
    ])
    error_message = "endpoint_audiences must have at least one host for each audience: names without scheme, port, path and wildcard."
  }
}

variable "validation_origin" {
  description = "Host name that asks endpoints for consent to CloudEvents (WebHook-Request-Origin); delivery requests carry it too. The Azure Functions trigger answers only to the default."
  type        = string
  default     = "eventgrid.azure.net"
  nullable    = false

  validation {
    condition     = can(regex("^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+$", var.validation_origin))
    error_message = "validation_origin must be a host name, such as events.example.com, got \"${var.validation_origin}\"."
  }
}

variable "publish_front_door" {
  description = "How publishers reach ingest: HTTP_API (API Gateway: throttling, tokens, custom domains) or FUNCTION_URL (no fee per request; publish_rate_limit and publish_burst_limit do not apply, so only the account's concurrency limits a flood). A change of this value changes the publish URL."
  type        = string
  default     = "HTTP_API"
  nullable    = false

  validation {
    condition     = contains(["HTTP_API", "FUNCTION_URL"], var.publish_front_door)
    error_message = "publish_front_door must be HTTP_API or FUNCTION_URL, got \"${var.publish_front_door}\"."
  }
}

variable "publish_domain" {
  description = "Custom domain of the publish API: its name, the ARN of its certificate in the deployment's region, and, if Route 53 hosts it, the id of its zone, in which Terraform then creates a record. Otherwise create a CNAME to output domain_targets yourself. publish_url then has this name. The API takes the whole domain, with the same paths. Not with publish_front_door FUNCTION_URL."
  type = object({
    name            = string
    certificate_arn = string
    zone_id         = optional(string)
  })
  default = null

  validation {
    condition     = var.publish_domain == null || can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.publish_domain.name))
    error_message = "publish_domain.name must be a host name in small letters, such as events.example.com, got ${jsonencode(var.publish_domain)}."
  }

  validation {
    condition     = var.publish_domain == null || can(regex("^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/.+$", var.publish_domain.certificate_arn))
    error_message = "publish_domain.certificate_arn must be the ARN of a certificate of ACM, got ${jsonencode(var.publish_domain)}."
  }
}

variable "manage_domain" {
  description = "Custom domain of the manage API: its name, the ARN of its certificate in the deployment's region, and, if Route 53 hosts it, the id of its zone, in which Terraform then creates a record. Otherwise create a CNAME to output domain_targets yourself. manage_url then has this name. The API takes the whole domain, with the same paths."
  type = object({
    name            = string
    certificate_arn = string
    zone_id         = optional(string)
  })
  default = null

  validation {
    condition     = var.manage_domain == null || can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.manage_domain.name))
    error_message = "manage_domain.name must be a host name in small letters, such as manage.events.example.com, got ${jsonencode(var.manage_domain)}."
  }

  validation {
    condition     = var.manage_domain == null || can(regex("^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/.+$", var.manage_domain.certificate_arn))
    error_message = "manage_domain.certificate_arn must be the ARN of a certificate of ACM, got ${jsonencode(var.manage_domain)}."
  }
}

variable "default_endpoints" {
  description = "Whether the APIs also answer under their execute-api host names. Set it to false if publish_domain and manage_domain must be the only way in, as behind a CDN with a firewall."
  type        = bool
  default     = true
  nullable    = false
}

variable "publish_public_url" {
  description = "Base URL that publishers use if they reach the publish API through a CDN such as CloudFront: https and a host, without a slash at the end. Outputs, topics' endpoints and commands then name it. Null, the default, is the API's own address."
  type        = string
  default     = null

  validation {
    condition     = var.publish_public_url == null || can(regex("^https://[A-Za-z0-9.-]+$", var.publish_public_url))
    error_message = "publish_public_url must be null or https:// and a host name, without a path, got ${jsonencode(var.publish_public_url)}."
  }
}

variable "origin_secret_sha256" {
  description = "SHA-256, in 64 hexadecimal digits, of the secret that your CDN sends in the header X-Gridpost-Origin-Secret, such as sha256(random_password.origin.result): ingest answers every publish without it with 403, so requests can't pass by the CDN and its firewall. Two digests while you replace the secret; empty, the default, asks for none. Only a random secret of at least 32 characters can't be guessed from its digest. Needs publish_public_url."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.origin_secret_sha256) <= 2 && alltrue([for digest in var.origin_secret_sha256 : can(regex("^[0-9a-f]{64}$", digest))])
    error_message = "origin_secret_sha256 must be at most two digests of 64 hexadecimal digits, as sha256() makes them. What was given is not shown: it may be the secret itself."
  }

  validation {
    condition     = length(var.origin_secret_sha256) == 0 || var.publish_public_url != null
    error_message = "origin_secret_sha256 needs publish_public_url: the API's own address refuses publishes then, and publishers must be told another one."
  }
}

variable "publish_access_logs" {
  description = "Whether API Gateway logs every publish, including refused ones, with the caller's address and identity: about 600 bytes each, 0.30 dollars per million. Not with publish_front_door FUNCTION_URL."
  type        = bool
  default     = false
  nullable    = false
}

variable "manage_access_logs" {
  description = "Whether API Gateway logs every call of the manage API, including refused ones, with the caller's IAM identity: who read keys, who changed what."
  type        = bool
  default     = true
  nullable    = false
}

variable "publish_rate_limit" {
  description = "Requests per second that the publish API accepts on average, 1 to 100000; requests beyond it get 429. The account's quota, 10,000 unless raised, also applies. You pay for requests, including refused ones (but not for 429s), so this limit bounds what a stranger can cost you: some 80 dollars a day with the default."
  type        = number
  default     = 500
  nullable    = false

  validation {
    condition     = var.publish_rate_limit >= 1 && var.publish_rate_limit <= 100000
    error_message = "publish_rate_limit must be 1 to 100000 requests per second, got ${var.publish_rate_limit}."
  }
}

variable "publish_burst_limit" {
  description = "Requests that the publish API accepts at once above the rate, 1 to 50000. The account's quota, 5,000 unless raised, also applies."
  type        = number
  default     = 500
  nullable    = false

  validation {
    condition = (
      var.publish_burst_limit >= 1 && var.publish_burst_limit <= 50000
      && floor(var.publish_burst_limit) == var.publish_burst_limit
    )
    error_message = "publish_burst_limit must be a whole number from 1 to 50000, got ${var.publish_burst_limit}."
  }
}

variable "publish_authorization" {
  description = "Who may publish: KEYS (with a topic's access key or a SAS token; ingest checks them), AWS_IAM (requests signed by IAM principals that are allowed execute-api:Invoke on the route, so a policy can name topics; with publish_front_door FUNCTION_URL see infra/README.md) or JWT (with a token of publish_jwt_issuer for one of publish_jwt_audience; it gives access to every topic). With AWS_IAM and JWT, keys and SAS tokens are ignored."
  type        = string
  default     = "KEYS"
  nullable    = false

  validation {
    condition     = contains(["KEYS", "AWS_IAM", "JWT"], var.publish_authorization)
    error_message = "publish_authorization must be KEYS, AWS_IAM or JWT, got \"${var.publish_authorization}\"."
  }
}

variable "publish_jwt_issuer" {
  description = "Issuer of the tokens that publish_authorization JWT accepts, as in their iss claim: an https URL under which /.well-known/openid-configuration exists, such as https://login.microsoftonline.com/<tenant>/v2.0. Null with KEYS and AWS_IAM."
  type        = string
  default     = null

  validation {
    condition     = var.publish_jwt_issuer == null || can(regex("^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^?#\\s]*)?$", var.publish_jwt_issuer))
    error_message = "publish_jwt_issuer must be null or an https URL without query, got \"${coalesce(var.publish_jwt_issuer, "null")}\"."
  }
}

variable "publish_jwt_audience" {
  description = "Audiences, of which a token must name one (in aud, or in client_id without aud): 1 to 50 with publish_authorization JWT (API Gateway's limit), empty with KEYS and AWS_IAM."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.publish_jwt_audience) <= 50 && alltrue([for audience in var.publish_jwt_audience : length(audience) > 0])
    error_message = "publish_jwt_audience must be at most 50 audiences, none of them empty, got ${jsonencode(var.publish_jwt_audience)}."
  }
}

variable "manage_authorization" {
  description = "Who may call the manage API: AWS_IAM (requests signed by IAM principals that are allowed execute-api:Invoke on the route) or NONE (anyone; refused unless aws_endpoint_url is set)."
  type        = string
  default     = "AWS_IAM"
  nullable    = false

  validation {
    condition     = contains(["AWS_IAM", "NONE"], var.manage_authorization)
    error_message = "manage_authorization must be AWS_IAM or NONE, got \"${var.manage_authorization}\"."
  }
}

variable "protect_data" {
  description = "Whether to refuse a destroy while there is data: both tables have deletion protection, Terraform deletes them before the queues (so a refused destroy deletes no waiting message), and buckets are not emptied. Functions and their mappings may be gone after a refused destroy; the next apply brings them back. To destroy, set it to false and apply first."
  type        = bool
  default     = true
  nullable    = false
}

variable "latency_metrics" {
  description = "Whether PublishSuccessLatencyInMs, DestinationProcessingDurationInMs and DeliveryLatencyInMs are written: a log line of about 350 bytes for each publish, and for each event subscription that an invocation of dispatch serves. That costs 0.20 to 0.50 dollars per million delivered events if each is published alone, less if they are published together, plus a CloudWatch custom metric of each kind for every topic or event subscription."
  type        = bool
  default     = false
  nullable    = false
}

variable "metrics_by_event_subscription" {
  description = "Whether metrics are also kept by topic and event subscription. Each is a CloudWatch custom metric, 0.30 dollars a month if it has values. Without failures there are some 2 for each event subscription and 2 for each topic (10 topics with 50 event subscriptions cost 36 dollars a month, 100 with 1,000 cost 660), and failures add one for each error and reason. If false, metrics are of the whole deployment, by error and reason; the log lines have the names, and gridpost audit, gridpost subscription health and Logs Insights read them there."
  type        = bool
  default     = false
  nullable    = false
}

variable "alarms" {
  description = "Which alarms to create. PAGES: six alarms on events that are refused, late or lost (publishes answered with 5xx, old messages, messages that come back, poison messages, drops, wake not running), 0.70 dollars a month; with publish_front_door FUNCTION_URL a seventh on publishes that Lambda answers with 429, 0.10 more. ALL: eleven more kinds, on causes and on problems that can wait until the morning (dead letters, failing attempts, late retries, full retry queues, failed and throttled invocations, throttled tables, the manage API, large publishes and redrives that wait, stuck parked deliveries), some 3 dollars more. NONE: no alarms."
  type        = string
  default     = "PAGES"
  nullable    = false

  validation {
    condition     = contains(["PAGES", "ALL", "NONE"], var.alarms)
    error_message = "alarms must be PAGES, ALL or NONE, got \"${var.alarms}\"."
  }
}

variable "dashboard" {
  description = "Whether to create a CloudWatch dashboard: 3 dollars a month beyond an account's first three."
  type        = bool
  default     = false
  nullable    = false
}

variable "alarm_failed_publishes" {
  description = "Publishes answered with 5xx within five minutes at which the alarm on refused publishes goes off, at least 1; with a function URL, publishes that Lambda answers with 429 have the same limit."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = var.alarm_failed_publishes >= 1
    error_message = "alarm_failed_publishes must be at least 1, got ${var.alarm_failed_publishes}."
  }
}

variable "alarm_due_retries" {
  description = "Due messages waiting in one retry queue or the slow queue, at least 0. If there are more for a quarter of an hour, the alarm on late retries goes off."
  type        = number
  default     = 1000
  nullable    = false

  validation {
    condition     = var.alarm_due_retries >= 0
    error_message = "alarm_due_retries must not be negative, got ${var.alarm_due_retries}."
  }
}

variable "alarm_failed_attempts_percent" {
  description = "Percentage of attempts that fail at which the alarm on failed attempts goes off, 1 to 100, if there are at least 20 attempts in five minutes."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.alarm_failed_attempts_percent >= 1 && var.alarm_failed_attempts_percent <= 100
    error_message = "alarm_failed_attempts_percent must be from 1 to 100, got ${var.alarm_failed_attempts_percent}."
  }
}

variable "alarm_dead_letters" {
  description = "Events dead-lettered within five minutes, at least 0. If there are more, the alarm on dead letters goes off."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.alarm_dead_letters >= 0
    error_message = "alarm_dead_letters must not be negative, got ${var.alarm_dead_letters}."
  }
}

variable "alarm_queue_age_seconds" {
  description = "Age of the oldest delivery that has not been attempted yet, in seconds, 1 to 86400. Above it the alarm on late messages goes off. SQS leaves messages that were received three times out of this age. So above some 480 (twice dispatch_timeout_seconds and a minute more), it sees only what dispatch does not receive, and no first attempts that dispatch receives and can't settle."
  type        = number
  default     = 120
  nullable    = false

  validation {
    condition     = var.alarm_queue_age_seconds >= 1 && var.alarm_queue_age_seconds <= 86400
    error_message = "alarm_queue_age_seconds must be from 1 to 86400, got ${var.alarm_queue_age_seconds}."
  }
}

variable "log_successful_attempts" {
  description = "Whether dispatch logs a line for each first attempt that succeeds, about 500 bytes: some 0.25 dollars per million deliveries in CloudWatch Logs. Failed attempts, and successes after one, are logged in any case. Without it, gridpost tail and gridpost explain do not show deliveries that succeed at once."
  type        = bool
  default     = false
  nullable    = false
}

variable "tracing" {
  description = "Whether Lambda traces invocations with X-Ray (active tracing): when each one began, how long it waited, started and ran, and whether it failed. X-Ray samples the first invocation of each function in each second and 5 percent of the others, at 5 dollars per million traces. Gridpost adds no segments, and a publisher's traceparent is a separate trace, which reaches the endpoint either way. The roles get two X-Ray permissions for all resources, because X-Ray can't restrict them."
  type        = bool
  default     = false
  nullable    = false
}

variable "failed_response_bytes" {
  description = "How many bytes of a failed response's body to keep with its attempt, 0 to 1024: in dispatch's log, and in the delivery's state until two days after its end (at most 4096 for all attempts of a delivery). gridpost delivery show, explain and tail show them. A response may contain personal data, or repeat the events that were sent; tokens and delivery attributes that it repeats word for word are hidden. 0 neither reads nor keeps a body."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.failed_response_bytes >= 0 && var.failed_response_bytes <= 1024 && floor(var.failed_response_bytes) == var.failed_response_bytes
    error_message = "failed_response_bytes must be a whole number from 0 to 1024, got ${var.failed_response_bytes}."
  }
}

variable "log_level" {
  description = "What the functions log: off, error, warn, info, debug or trace, or a list such as info,gridpost_dispatch=debug (a filter of Rust's tracing). debug logs each step of each delivery. A library is logged below info only if the list names it: it may then log keys and events. Attempts and ends of deliveries are the journal's data: they are logged at any level, unless the list has gridpost_ports::journal=off."
  type        = string
  default     = "info"
  nullable    = false

  validation {
    condition = alltrue([
      for part in split(",", var.log_level) :
      can(regex("^([A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*=)?(off|error|warn|info|debug|trace)$", part))
    ])
    error_message = "log_level must be off, error, warn, info, debug or trace, or a list of those with <module>= in front, got \"${var.log_level}\"."
  }
}

variable "log_retention_days" {
  description = "Days that CloudWatch keeps the functions' logs, one of the periods that it supports: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653. Logs can't be kept forever."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition = contains([
      1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
    ], var.log_retention_days)
    error_message = "log_retention_days must be one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653, got ${var.log_retention_days}."
  }
}

variable "alarm_topic_arns" {
  description = "ARNs of SNS topics that are notified when an alarm goes off (alarm_ends: and when it ends), at most five (CloudWatch's limit). If empty, alarms only change their state."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition = length(var.alarm_topic_arns) <= 5 && alltrue([
      for arn in var.alarm_topic_arns : can(regex("^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$", arn))
    ])
    error_message = "alarm_topic_arns must be at most five ARNs of SNS topics, got ${jsonencode(var.alarm_topic_arns)}."
  }
}

variable "alarm_ends" {
  description = "Whether alarm_topic_arns are also notified when an alarm ends, for pagers that then close the incident. A new alarm begins without data, and ends that state with its first data: the first apply sends a message for each alarm, six in all."
  type        = bool
  default     = false
  nullable    = false
}
