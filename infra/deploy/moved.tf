# For deployments from before the module, which had everything at the root. Terraform records the new addresses and replaces
# nothing.

moved {
  from = aws_cloudwatch_metric_alarm.poison
  to   = module.gridpost.aws_cloudwatch_metric_alarm.poison
}

moved {
  from = aws_cloudwatch_metric_alarm.retry_in_flight
  to   = module.gridpost.aws_cloudwatch_metric_alarm.retry_in_flight
}

moved {
  from = aws_cloudwatch_metric_alarm.dead_letter_age
  to   = module.gridpost.aws_cloudwatch_metric_alarm.dead_letter_age
}

moved {
  from = aws_cloudwatch_metric_alarm.fan_out_age
  to   = module.gridpost.aws_cloudwatch_metric_alarm.fan_out_age
}

moved {
  from = aws_cloudwatch_metric_alarm.wake
  to   = module.gridpost.aws_cloudwatch_metric_alarm.wake
}

moved {
  from = aws_cloudwatch_metric_alarm.stuck_parked
  to   = module.gridpost.aws_cloudwatch_metric_alarm.stuck_parked
}

moved {
  from = aws_cloudwatch_metric_alarm.dead_letters
  to   = module.gridpost.aws_cloudwatch_metric_alarm.dead_letters
}

moved {
  from = aws_cloudwatch_metric_alarm.dropped
  to   = module.gridpost.aws_cloudwatch_metric_alarm.dropped
}

moved {
  from = aws_cloudwatch_metric_alarm.dispatch_age
  to   = module.gridpost.aws_cloudwatch_metric_alarm.dispatch_age
}

moved {
  from = aws_cloudwatch_metric_alarm.failed_attempts
  to   = module.gridpost.aws_cloudwatch_metric_alarm.failed_attempts
}

moved {
  from = aws_s3_bucket.dead_letters
  to   = module.gridpost.aws_s3_bucket.dead_letters
}

moved {
  from = aws_s3_bucket_public_access_block.dead_letters
  to   = module.gridpost.aws_s3_bucket_public_access_block.dead_letters
}

moved {
  from = aws_s3_bucket_ownership_controls.dead_letters
  to   = module.gridpost.aws_s3_bucket_ownership_controls.dead_letters
}

moved {
  from = aws_s3_bucket_server_side_encryption_configuration.dead_letters
  to   = module.gridpost.aws_s3_bucket_server_side_encryption_configuration.dead_letters
}

moved {
  from = aws_s3_bucket_policy.dead_letters
  to   = module.gridpost.aws_s3_bucket_policy.dead_letters
}

moved {
  from = aws_cloudwatch_dashboard.this
  to   = module.gridpost.aws_cloudwatch_dashboard.this
}

moved {
  from = module.dead_letter
  to   = module.gridpost.module.dead_letter
}

moved {
  from = aws_lambda_event_source_mapping.dead_letter
  to   = module.gridpost.aws_lambda_event_source_mapping.dead_letter
}

moved {
  from = aws_lambda_event_source_mapping.redrive
  to   = module.gridpost.aws_lambda_event_source_mapping.redrive
}

moved {
  from = module.dispatch
  to   = module.gridpost.module.dispatch
}

moved {
  from = aws_lambda_event_source_mapping.dispatch
  to   = module.gridpost.aws_lambda_event_source_mapping.dispatch
}

moved {
  from = aws_lambda_event_source_mapping.retry
  to   = module.gridpost.aws_lambda_event_source_mapping.retry
}

moved {
  from = module.ingest
  to   = module.gridpost.module.ingest
}

moved {
  from = aws_lambda_event_source_mapping.fan_out
  to   = module.gridpost.aws_lambda_event_source_mapping.fan_out
}

moved {
  from = module.manage
  to   = module.gridpost.module.manage
}

moved {
  from = aws_apigatewayv2_api.manage
  to   = module.gridpost.aws_apigatewayv2_api.manage
}

moved {
  from = aws_apigatewayv2_integration.manage
  to   = module.gridpost.aws_apigatewayv2_integration.manage
}

moved {
  from = aws_apigatewayv2_route.manage
  to   = module.gridpost.aws_apigatewayv2_route.manage
}

moved {
  from = aws_apigatewayv2_route.validation
  to   = module.gridpost.aws_apigatewayv2_route.validation
}

moved {
  from = aws_apigatewayv2_stage.manage
  to   = module.gridpost.aws_apigatewayv2_stage.manage
}

moved {
  from = aws_lambda_permission.manage
  to   = module.gridpost.aws_lambda_permission.manage
}

moved {
  from = aws_s3_bucket.payloads
  to   = module.gridpost.aws_s3_bucket.payloads
}

moved {
  from = aws_s3_bucket_lifecycle_configuration.payloads
  to   = module.gridpost.aws_s3_bucket_lifecycle_configuration.payloads
}

moved {
  from = aws_s3_bucket_public_access_block.payloads
  to   = module.gridpost.aws_s3_bucket_public_access_block.payloads
}

moved {
  from = aws_s3_bucket_ownership_controls.payloads
  to   = module.gridpost.aws_s3_bucket_ownership_controls.payloads
}

moved {
  from = aws_s3_bucket_server_side_encryption_configuration.payloads
  to   = module.gridpost.aws_s3_bucket_server_side_encryption_configuration.payloads
}

moved {
  from = aws_s3_bucket_policy.payloads
  to   = module.gridpost.aws_s3_bucket_policy.payloads
}

moved {
  from = aws_apigatewayv2_api.publish
  to   = module.gridpost.aws_apigatewayv2_api.publish
}

moved {
  from = aws_apigatewayv2_authorizer.publish
  to   = module.gridpost.aws_apigatewayv2_authorizer.publish
}

moved {
  from = aws_apigatewayv2_integration.publish
  to   = module.gridpost.aws_apigatewayv2_integration.publish
}

moved {
  from = aws_apigatewayv2_route.publish
  to   = module.gridpost.aws_apigatewayv2_route.publish
}

moved {
  from = aws_apigatewayv2_stage.publish
  to   = module.gridpost.aws_apigatewayv2_stage.publish
}

moved {
  from = aws_lambda_permission.publish
  to   = module.gridpost.aws_lambda_permission.publish
}

moved {
  from = aws_lambda_function_url.publish
  to   = module.gridpost.aws_lambda_function_url.publish
}

moved {
  from = aws_lambda_permission.publish_function_url
  to   = module.gridpost.aws_lambda_permission.publish_function_url
}

moved {
  from = aws_cloudformation_stack.publish_function_url
  to   = module.gridpost.aws_cloudformation_stack.publish_function_url
}

moved {
  from = aws_sqs_queue.poison
  to   = module.gridpost.aws_sqs_queue.poison
}

moved {
  from = aws_sqs_queue.dispatch
  to   = module.gridpost.aws_sqs_queue.dispatch
}

moved {
  from = aws_sqs_queue.retry
  to   = module.gridpost.aws_sqs_queue.retry
}

moved {
  from = aws_sqs_queue.dead_letter
  to   = module.gridpost.aws_sqs_queue.dead_letter
}

moved {
  from = aws_sqs_queue.fan_out
  to   = module.gridpost.aws_sqs_queue.fan_out
}

moved {
  from = aws_sqs_queue.redrive
  to   = module.gridpost.aws_sqs_queue.redrive
}

moved {
  from = aws_dynamodb_table.config
  to   = module.gridpost.aws_dynamodb_table.config
}

moved {
  from = aws_dynamodb_table.state
  to   = module.gridpost.aws_dynamodb_table.state
}

moved {
  from = module.wake
  to   = module.gridpost.module.wake
}

moved {
  from = aws_lambda_function_event_invoke_config.wake
  to   = module.gridpost.aws_lambda_function_event_invoke_config.wake
}

moved {
  from = aws_iam_role.wake_schedule
  to   = module.gridpost.aws_iam_role.wake_schedule
}

moved {
  from = aws_iam_role_policy.wake_schedule
  to   = module.gridpost.aws_iam_role_policy.wake_schedule
}

moved {
  from = aws_scheduler_schedule.wake
  to   = module.gridpost.aws_scheduler_schedule.wake
}
