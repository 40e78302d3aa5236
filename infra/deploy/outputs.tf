# Written by infra/reference.py: what the module takes and gives, passed on.
# Each is described in the table of outputs in infra/README.md.

output "publish_url" { value = module.gridpost.publish_url }
output "manage_url" { value = module.gridpost.manage_url }
output "domain_targets" { value = module.gridpost.domain_targets }
output "dead_letter_bucket" { value = module.gridpost.dead_letter_bucket }
output "dead_letter_role_arn" { value = module.gridpost.dead_letter_role_arn }
output "redrive_role_arn" { value = module.gridpost.redrive_role_arn }
output "manage_role_arn" { value = module.gridpost.manage_role_arn }
output "region" { value = module.gridpost.region }
output "name_prefix" { value = module.gridpost.name_prefix }
output "function_names" { value = module.gridpost.function_names }
output "function_arns" { value = module.gridpost.function_arns }
output "role_arns" { value = module.gridpost.role_arns }
output "log_group_names" { value = module.gridpost.log_group_names }
output "queue_urls" { value = module.gridpost.queue_urls }
output "queue_arns" { value = module.gridpost.queue_arns }
output "table_arns" { value = module.gridpost.table_arns }
output "bucket_arns" { value = module.gridpost.bucket_arns }
output "publish_api_id" { value = module.gridpost.publish_api_id }
output "publish_execution_arn" { value = module.gridpost.publish_execution_arn }
output "publish_host" { value = module.gridpost.publish_host }
output "manage_api_id" { value = module.gridpost.manage_api_id }
output "manage_execution_arn" { value = module.gridpost.manage_execution_arn }
output "manage_host" { value = module.gridpost.manage_host }
output "config_table" { value = module.gridpost.config_table }
output "state_table" { value = module.gridpost.state_table }
output "aws_sources" { value = module.gridpost.aws_sources }
output "publish_command" { value = module.gridpost.publish_command }
