# Only rules that need no deployment are checked here. All other rules of a document are in the manage function, which the plan
# asks.

variable "manage_function_name" {
  description = "Name or ARN of the deployment's manage function: output function_names[\"manage\"] of infra/. Terraform needs lambda:InvokeFunction on it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9:_-]{1,170}$", var.manage_function_name))
    error_message = "manage_function_name must be the name or the ARN of a Lambda function, got \"${var.manage_function_name}\"."
  }
}

variable "topic" {
  description = "Topic that the event subscription belongs to, 3 to 50 letters, digits and hyphens. It must exist. Changing more than its case replaces the event subscription."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9-]{3,50}$", var.topic))
    error_message = "topic must be 3 to 50 letters, digits and hyphens, got \"${var.topic}\"."
  }
}

variable "name" {
  description = "Name of the event subscription, 2 to 64 letters, digits and hyphens. Changing more than its case replaces the event subscription."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9-]{2,64}$", var.name))
    error_message = "name must be 2 to 64 letters, digits and hyphens, got \"${var.name}\"."
  }
}

variable "document" {
  description = "The event subscription's document, as the resource API accepts and returns it: an object with the member properties. Plans show it, so put secrets into endpoint_url, secret_headers and client_secret."
  type        = any
  nullable    = false

  validation {
    condition     = can(keys(var.document.properties))
    error_message = "document must be an object whose member properties is an object, as in { properties = { destination = ... } }."
  }
}

variable "endpoint_url" {
  description = "URL that receives the events, at most 2,048 characters. Use it if the URL's query holds a secret. It becomes properties.destination.properties.endpointUrl of the document, which must not set that member itself. Null: the document names the URL."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.endpoint_url == null || can(regex("^https?://[^[:space:]/?#]", var.endpoint_url))
    error_message = "endpoint_url must be null or an absolute URL that begins with https:// (or, where the deployment allows the network, http://)."
  }

  validation {
    condition     = length(coalesce(var.endpoint_url, "-")) <= 2048
    error_message = "endpoint_url must have at most 2048 characters."
  }

  validation {
    condition     = var.endpoint_url == null || try(var.document.properties.destination.properties.endpointUrl, null) == null
    error_message = "The URL is given twice: endpoint_url and properties.destination.properties.endpointUrl of document. Remove one."
  }
}

variable "secret_headers" {
  description = "Headers with secret values for every delivery, by name; at most 10 together with the document's own deliveryAttributeMappings, and values of at most 4,096 bytes. Each becomes a static, secret delivery attribute."
  type        = map(string)
  default     = {}
  nullable    = false
  sensitive   = true

  validation {
    condition     = alltrue([for name in keys(var.secret_headers) : can(regex("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", name)) && !startswith(lower(name), "aeg-")])
    error_message = "secret_headers must be named as HTTP headers are, and not begin with aeg-."
  }

  validation {
    # Base64 turns three bytes into four characters: 4,096 bytes become 5,464.
    condition     = alltrue([for value in values(var.secret_headers) : length(base64encode(value)) <= 5464])
    error_message = "The values of secret_headers must have at most 4096 bytes."
  }

  validation {
    condition = length(var.secret_headers) + try(
      length(var.document.properties.destination.properties.deliveryAttributeMappings), 0
    ) <= 10
    error_message = "An event subscription has at most 10 headers: secret_headers and the document's deliveryAttributeMappings together."
  }
}

variable "client_secret" {
  description = "Client secret of the document's authentication, at most 4,096 bytes, where it names none by reference. It becomes clientSecret of properties.destination.properties.authentication.properties, which the document must have. Null: the document names the secret, or has no authentication."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.client_secret == null || can(keys(var.document.properties.destination.properties.authentication))
    error_message = "client_secret belongs to an authentication: write type, tokenUrl and clientId into properties.destination.properties.authentication of document."
  }

  validation {
    # Base64 turns three bytes into four characters: 4,096 bytes become 5,464.
    condition     = length(base64encode(coalesce(var.client_secret, "-"))) <= 5464
    error_message = "client_secret must have at most 4096 bytes."
  }

  validation {
    condition     = var.client_secret == null || try(var.document.properties.destination.properties.authentication.properties.clientSecret, null) == null
    error_message = "The secret is given twice: client_secret and clientSecret of the document's authentication. Remove one."
  }
}

variable "private_key" {
  description = "Private key of the document's authentication, PEM, at most 4,096 bytes, where it names none by reference: of a client that signs (PrivateKeyJwt), or of a client certificate. It becomes privateKey of properties.destination.properties.authentication.properties, which the document must have. Null: the document names the key, or has none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.private_key == null || can(keys(var.document.properties.destination.properties.authentication))
    error_message = "private_key belongs to an authentication: write its type and its other members into properties.destination.properties.authentication of document."
  }

  validation {
    # Base64 turns three bytes into four characters: 4,096 bytes become 5,464.
    condition     = length(base64encode(coalesce(var.private_key, "-"))) <= 5464
    error_message = "private_key must have at most 4096 bytes."
  }

  validation {
    condition     = var.private_key == null || (var.client_secret == null && try(var.document.properties.destination.properties.authentication.properties.privateKey, null) == null)
    error_message = "The secret is given twice: private_key, and client_secret or privateKey of the document's authentication. Remove one."
  }
}

variable "validate_at_plan" {
  description = "Whether a plan asks the manage function for problems in the document. Set it to false if the planning role may not invoke the function: problems then show at apply."
  type        = bool
  default     = true
  nullable    = false
}
