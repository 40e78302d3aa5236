# The module that gives `gridpost verify` its queue and its webhook.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "a_queue_and_a_webhook_that_reports" {
  command = apply

  module {
    source = "./modules/verify"
  }

  assert {
    condition = (
      output.queue_arn == "arn:aws:sqs:eu-central-1:123456789012:gridpost-verify"
      && output.reports_arn == "arn:aws:sqs:eu-central-1:123456789012:gridpost-verify-reports"
      && aws_sqs_queue.this["events"].name == "gridpost-verify"
      && aws_sqs_queue.this["reports"].name == "gridpost-verify-reports"
    )
    error_message = "queues are ${jsonencode([for queue in aws_sqs_queue.this : queue.name])}"
  }

  assert {
    condition = (
      can(regex("^https://mocked.lambda-url.eu-central-1.on.aws/\\?token=[0-9a-f-]{36}$", nonsensitive(output.webhook_url)))
      && nonsensitive(output.arguments) == "--queue ${output.queue_arn} --reports ${output.reports_arn} --webhook ${nonsensitive(output.webhook_url)}"
    )
    error_message = "arguments are ${nonsensitive(output.arguments)}"
  }

  assert {
    condition = alltrue([
      for name in ["Function", "Url", "Call", "InvokeByUrl"] : contains(keys(jsondecode(aws_cloudformation_stack.webhook.template_body).Resources), name)
    ])
    error_message = "the stack has ${aws_cloudformation_stack.webhook.template_body}"
  }

  # CloudFormation takes so much text; more would have to be a zip.
  assert {
    condition     = length(jsondecode(aws_cloudformation_stack.webhook.template_body).Resources.Function.Properties.Code.ZipFile) <= 4096
    error_message = "webhook.py is longer than 4,096 characters"
  }

  assert {
    condition     = jsondecode(aws_cloudformation_stack.webhook.template_body).Resources.InvokeByUrl.Properties.InvokedViaFunctionUrl
    error_message = "the function can be invoked by others than its URL"
  }

  assert {
    condition = jsondecode(aws_iam_role_policy.webhook.policy).Statement[0] == {
      Sid = "Report", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = [output.reports_arn]
    }
    error_message = "the webhook may ${aws_iam_role_policy.webhook.policy}"
  }
}

run "names_begin_as_asked_for" {
  command = plan

  module {
    source = "./modules/verify"
  }

  variables {
    name_prefix = "other"
  }

  assert {
    condition     = aws_sqs_queue.this["events"].name == "other-verify" && aws_cloudformation_stack.webhook.name == "other-verify-webhook"
    error_message = "names are ${jsonencode([aws_sqs_queue.this["events"].name, aws_cloudformation_stack.webhook.name])}"
  }
}

run "a_name_that_aws_refuses_is_refused" {
  command = plan

  module {
    source = "./modules/verify"
  }

  variables {
    name_prefix = "-bad"
  }

  expect_failures = [var.name_prefix]
}
