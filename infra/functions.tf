# What all five functions share.

locals {
  functions_dir = startswith(var.functions_dir, "/") ? var.functions_dir : "${path.root}/${var.functions_dir}"

  # 512 MB is about 0.29 vCPU: TLS and JSON are what a small function waits for. manage serves operators, not events.
  memory_mb = merge(
    { ingest = 512, dispatch = 512, dead-letter = 512, manage = 256, wake = 256 },
    var.memory_mb,
  )

  common_environment = merge(
    { GRIDPOST_LOG = var.log_level },
    var.name_prefix == "gridpost" ? {} : { GRIDPOST_METRIC_NAMESPACE = local.metric_namespace },
    local.emulated ? { AWS_ENDPOINT_URL = var.aws_endpoint_url } : {},
  )

  # One function, one place for its limits; queues take their visibility timeouts from here.
  # ingest, manage: API Gateway gives up after 30 s, so a function that answers later answers nobody.
  # wake: runs once a minute, and two runs shall not overlap.
  timeout_seconds = {
    ingest      = 29
    dispatch    = var.dispatch_timeout_seconds
    dead-letter = 60
    manage      = 29
    wake        = 55
  }
}
