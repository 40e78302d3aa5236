# One event subscription. The module invokes the manage function directly, which does what a request to the manage API would do:
# validation at plan, a PUT at apply, a DELETE when the resource is destroyed.

locals {
  properties = var.document.properties

  # The document with its secrets. Null values are left out, so the document's own member stays.
  destination = try(local.properties.destination, {})
  secret_attributes = [
    for name, value in var.secret_headers : { name = name, type = "Static", properties = { value = value, isSecret = true } }
  ]
  destination_properties = merge(
    try(local.destination.properties, {}),
    { for member, value in { endpointUrl = var.endpoint_url } : member => value if value != null },
    {
      for member, mappings in {
        deliveryAttributeMappings = concat(try(local.destination.properties.deliveryAttributeMappings, []), local.secret_attributes)
      } : member => mappings if length(local.secret_attributes) > 0
    },
    {
      for member, value in { clientSecret = var.client_secret, privateKey = var.private_key } : "authentication" => merge(
        try(local.destination.properties.authentication, {}),
        { properties = merge(try(local.destination.properties.authentication.properties, {}), { (member) = value }) },
      ) if value != null
    },
  )
  document = merge(var.document, {
    properties = merge(local.properties, {
      destination = merge(local.destination, { properties = local.destination_properties })
    })
  })

  of = { topic = var.topic, name = var.name }
}

# Lists every problem of the document with its path before anything is changed. This does not ask the endpoint yet.
data "aws_lambda_invocation" "validation" {
  count = var.validate_at_plan ? 1 : 0

  function_name = var.manage_function_name
  input         = jsonencode(merge(local.of, { terraform = "validate", document = local.document }))

  lifecycle {
    postcondition {
      condition     = length(jsondecode(self.result).problems) == 0
      error_message = "The event subscription ${var.name} of topic ${var.topic} would be refused:\n${join("\n", formatlist("- %s", jsondecode(self.result).problems))}"
    }
  }
}

# Shows in a plan what changes. The document that is sent holds secrets, so Terraform hides it completely.
resource "terraform_data" "document" {
  input = var.document
}

# Deletes the event subscription when the resource is destroyed, or when its topic or name changes; then the new one is created
# first. Creating or changing this resource does nothing.
resource "aws_lambda_invocation" "removal" {
  function_name   = var.manage_function_name
  lifecycle_scope = "CRUD"
  input           = jsonencode(merge(local.of, { terraform = "remove" }))
  # Another spelling names the same event subscription, which must not be removed.
  triggers = { topic = lower(var.topic), name = lower(var.name) }

  lifecycle {
    create_before_destroy = true
  }
}

# Writes the document. Terraform calls each change a replacement, but destroying this resource does nothing: the event
# subscription is changed in place. It is separate from the removal because Terraform stores the input of an update even if the
# update was refused, for example by the endpoint, and would not try again.
resource "aws_lambda_invocation" "document" {
  function_name = var.manage_function_name
  input         = jsonencode(merge(local.of, { terraform = "write", document = local.document }))

  lifecycle {
    create_before_destroy = true
  }

  depends_on = [aws_lambda_invocation.removal, data.aws_lambda_invocation.validation]
}
