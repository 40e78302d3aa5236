variable "name_prefix" {
  description = "First part of every name, 1 to 20 lower-case letters, digits and hyphens: usually the deployment's own prefix."
  type        = string
  default     = "gridpost"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", var.name_prefix))
    error_message = "name_prefix must be 1 to 20 lower-case letters, digits and hyphens, begin with a letter and not end with a hyphen, got \"${var.name_prefix}\"."
  }
}

variable "iam_path" {
  description = "Path of the webhook's role."
  type        = string
  default     = "/"
  nullable    = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the webhook's role; null: none."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for every resource that supports them."
  type        = map(string)
  default     = {}
  nullable    = false
}
