# One infrastructure: an endpoint URL changes where calls go and nothing else.

mock_provider "aws" {
  source = "./tests/mocks"

  override_resource {
    target = aws_sqs_queue.dispatch
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-dispatch"
      url = "http://127.0.0.1:4566/123456789012/gridpost-dispatch"
    }
  }
  override_resource {
    target = aws_sqs_queue.retry
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-retry-0"
      url = "http://127.0.0.1:4566/123456789012/gridpost-retry-0"
    }
  }
  override_resource {
    target = aws_sqs_queue.slow
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-slow"
      url = "http://127.0.0.1:4566/123456789012/gridpost-slow"
    }
  }
  override_resource {
    target = aws_sqs_queue.dead_letter
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-dead-letter"
      url = "http://127.0.0.1:4566/123456789012/gridpost-dead-letter"
    }
  }
  override_resource {
    target = aws_sqs_queue.fan_out
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-fan-out"
      url = "http://127.0.0.1:4566/123456789012/gridpost-fan-out"
    }
  }
  override_resource {
    target = aws_sqs_queue.redrive
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-redrive"
      url = "http://127.0.0.1:4566/123456789012/gridpost-redrive"
    }
  }
  override_resource {
    target = aws_sqs_queue.poison
    values = {
      arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-poison"
      url = "http://127.0.0.1:4566/123456789012/gridpost-poison"
    }
  }
  override_resource {
    target = aws_apigatewayv2_api.publish
    values = { id = "publish1", execution_arn = "arn:aws:execute-api:us-east-1:123456789012:publish1" }
  }
  override_resource {
    target = aws_apigatewayv2_api.manage
    values = { id = "manage1", execution_arn = "arn:aws:execute-api:us-east-1:123456789012:manage1" }
  }
}

variables {
  account              = { id = "123456789012", region = "us-east-1" }
  functions_dir        = "tests/functions"
  retry_queue_count    = 1
  aws_endpoint_url     = "http://127.0.0.1:4566"
  manage_authorization = "NONE"
}

run "clients_go_by_path" {
  command = apply

  assert {
    condition     = output.publish_url == "http://127.0.0.1:4566/_aws/execute-api/publish1/$default"
    error_message = "publish_url is ${output.publish_url}"
  }

  assert {
    condition     = output.manage_url == "http://127.0.0.1:4566/_aws/execute-api/manage1/$default"
    error_message = "manage_url is ${output.manage_url}"
  }

  # Single quotes, or a shell would expand $default.
  assert {
    condition     = strcontains(output.publish_command, "'http://127.0.0.1:4566/_aws/execute-api/publish1/$default/topics/demo/api/events'")
    error_message = "the publish command is ${output.publish_command}"
  }

  assert {
    condition     = alltrue([for route in aws_apigatewayv2_route.manage : route.authorization_type == "NONE"])
    error_message = "the manage API asks for IAM although told not to"
  }
}

run "functions_call_the_emulator" {
  command = plan

  assert {
    condition = alltrue([
      for function in [module.ingest, module.expand, module.dispatch, module.dead_letter, module.redrive, module.manage, module.wake] :
      function.environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"
    ])
    error_message = "a function would call AWS"
  }

  assert {
    condition     = module.ingest.environment["GRIDPOST_DISPATCH_QUEUE_URL"] == "http://127.0.0.1:4566/123456789012/gridpost-dispatch"
    error_message = "ingest is told ${module.ingest.environment["GRIDPOST_DISPATCH_QUEUE_URL"]}"
  }
}
