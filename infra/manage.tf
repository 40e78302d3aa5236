# manage: the resource API. The only writer of configuration; never on the way of an event.

module "manage" {
  source = "./modules/function"

  name               = "${var.name_prefix}-manage"
  region             = var.region
  description        = "Gridpost: topics, keys and event subscriptions"
  zip_file           = "${local.functions_dir}/manage/bootstrap.zip"
  architecture       = var.architecture
  memory_mb          = local.memory_mb["manage"]
  timeout_seconds    = local.timeout_seconds["manage"]
  log_retention_days = var.log_retention_days

  environment = merge(local.common_environment, {
    GRIDPOST_CONFIG_TABLE              = local.config_table_name
    GRIDPOST_STATE_TABLE               = local.state_table_name
    GRIDPOST_CONFIG_CACHE_MS           = tostring(var.config_cache_ms)
    GRIDPOST_ENDPOINT_ALLOWED_NETWORKS = join(",", var.endpoint_allowed_networks)
    GRIDPOST_ENDPOINT_ALLOWED_PORTS    = join(",", var.endpoint_allowed_ports)
    GRIDPOST_VALIDATION_ORIGIN         = var.validation_origin
    GRIDPOST_PUBLISH_URL               = local.publish_url
    GRIDPOST_MANAGE_URL                = local.manage_url
  })

  statements = [
    {
      # A transaction needs the permission of each of its parts; ConditionCheckItem is a part of its own.
      sid = "KeepConfig"
      actions = [
        "dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
        "dynamodb:ConditionCheckItem",
      ]
      resources = [local.config_table_arn]
    },
    {
      sid       = "ReadAndClearState"
      actions   = ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
      resources = [local.state_table_arn]
    },
    {
      sid       = "FindWaitingDeliveries"
      actions   = ["dynamodb:Query"]
      resources = ["${local.state_table_arn}/index/${local.waiting_index_name}"]
    },
  ]
}
