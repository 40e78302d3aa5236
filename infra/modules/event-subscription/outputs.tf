locals {
  written = jsondecode(aws_lambda_invocation.document.result)
}

output "id" {
  description = "Id of the event subscription: /topics/<topic>/eventSubscriptions/<name>."
  value       = local.written.id
}

output "provisioning_state" {
  description = "State when the document was last written: Succeeded, or AwaitingManualAction if the endpoint still waits for manual validation."
  value       = local.written.properties.provisioningState
}

output "document" {
  description = "The document as the resource API returned it when it was last written: with all defaults, without secrets."
  value       = local.written
}
