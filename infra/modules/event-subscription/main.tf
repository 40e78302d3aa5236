# One event subscription. The manage function is invoked directly, in the place of a request to the manage API, and does the same:
# validation at plan, a PUT at apply, a DELETE when the resource goes.

locals {
  properties = var.document.properties

  # The document with its secrets. What is null is left out, so that the document's own member stays.
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
      for member, value in { clientSecret = var.client_secret } : "authentication" => merge(
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

# Every problem of the document, each with its path, before anything is changed. The endpoint is not asked yet.
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

# Shows in a plan what changes. The document that is sent holds secrets, so Terraform hides all of it.
resource "terraform_data" "document" {
  input = var.document
}

# Deletes the event subscription when the resource goes, or its topic or name changes: then the new one is created before.
# To be created or changed it needs nothing.
resource "aws_lambda_invocation" "removal" {
  function_name   = var.manage_function_name
  lifecycle_scope = "CRUD"
  input           = jsonencode(merge(local.of, { terraform = "remove" }))
  triggers        = local.of

  lifecycle {
    create_before_destroy = true
  }
}

# Writes the document. Terraform calls each change a replacement, but its end does nothing: the event subscription is changed in
# place. It is not one resource with the removal because Terraform keeps what an update was to write even where that was refused,
# by the endpoint for one, and would not try again.
resource "aws_lambda_invocation" "document" {
  function_name = var.manage_function_name
  input         = jsonencode(merge(local.of, { terraform = "write", document = local.document }))

  lifecycle {
    create_before_destroy = true
  }

  depends_on = [aws_lambda_invocation.removal, data.aws_lambda_invocation.validation]
}
