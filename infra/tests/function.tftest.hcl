# The module by itself: what it makes of its variables, and what it refuses. (What is inside a module cannot be expected to fail
# from a test of the root module.)

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name        = "gridpost-sample"
  description = "Sample"
  program     = { package = { file = "tests/functions/ingest/bootstrap.zip" }, memory_mb = 256, timeout_seconds = 29 }
  settings = {
    account            = { id = "123456789012", region = "eu-central-1", partition = "aws" }
    architecture       = "arm64"
    log_retention_days = 30
  }
  environment = {}
  statements  = []
}

run "a_function_in_all_its_parts" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    environment = { GRIDPOST_LOG = "info" }
    statements = [{
      sid       = "ReadConfig"
      actions   = ["dynamodb:GetItem"]
      resources = ["arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config"]
    }]
  }

  assert {
    condition = (
      aws_lambda_function.this.runtime == "provided.al2023"
      && aws_lambda_function.this.handler == "bootstrap"
      && aws_lambda_function.this.architectures == tolist(["arm64"])
      && aws_lambda_function.this.memory_size == 256
      && aws_lambda_function.this.timeout == 29
      && aws_lambda_function.this.source_code_hash == filebase64sha256("tests/functions/ingest/bootstrap.zip")
      && aws_lambda_function.this.environment[0].variables == tomap({ GRIDPOST_LOG = "info" })
      && aws_lambda_function.this.logging_config[0].log_group == "/aws/lambda/gridpost-sample"
    )
    error_message = "the function is ${jsonencode(aws_lambda_function.this)}"
  }

  assert {
    condition = (
      one(aws_cloudwatch_log_group.this).name == "/aws/lambda/gridpost-sample" && one(aws_cloudwatch_log_group.this).retention_in_days == 30
    )
    error_message = "the log group is ${one(aws_cloudwatch_log_group.this).name}"
  }

  assert {
    condition     = aws_iam_role.this.name == "gridpost-sample-eu-central-1"
    error_message = "the role is called ${aws_iam_role.this.name}"
  }

  assert {
    condition = jsondecode(aws_iam_role.this.assume_role_policy).Statement == [{
      Sid       = "Lambda", Effect = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
    error_message = "the role trusts ${aws_iam_role.this.assume_role_policy}"
  }
}

run "refuses_a_function_with_another_hash" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    program = { package = { file = "tests/functions/ingest/bootstrap.zip", sha256 = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }, memory_mb = 256, timeout_seconds = 29 }
  }

  expect_failures = [aws_lambda_function.this]
}

run "refuses_a_function_that_was_not_built" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    program = { package = { file = "tests/functions/none/bootstrap.zip" }, memory_mb = 256, timeout_seconds = 29 }
  }

  expect_failures = [aws_lambda_function.this]
}

run "refuses_an_environment_over_four_kilobytes" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    environment = { N = format("%4096s", "x") }
  }

  expect_failures = [aws_lambda_function.this]
}

run "refuses_a_permission_for_everything" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    statements = [{ sid = "All", actions = ["sqs:*"], resources = ["arn:aws:sqs:eu-central-1:123456789012:q"] }]
  }

  expect_failures = [var.statements]
}

run "refuses_a_permission_on_everything" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    statements = [{ sid = "All", actions = ["sqs:SendMessage"], resources = ["*"] }]
  }

  expect_failures = [var.statements]
}

run "refuses_a_name_too_long_for_the_role" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    name = "a234567890-234567890-234567890-234567890-234567890"
  }

  expect_failures = [var.name]
}

run "refuses_a_timeout_over_lambdas_longest" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    program = { package = { file = "tests/functions/ingest/bootstrap.zip" }, memory_mb = 256, timeout_seconds = 901 }
  }

  expect_failures = [var.program]
}

run "refuses_a_policy_that_iam_does_not_take" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    statements = [{ sid = "Many", actions = ["s3:PutObject"], resources = [for number in range(130) : "arn:aws:s3:::${format("%063d", number)}"] }]
  }

  expect_failures = [aws_iam_role_policy.this]
}

run "terraform_leads_the_alias" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = { account = { id = "123456789012", region = "eu-central-1", partition = "aws" }, architecture = "arm64", log_retention_days = 30, versions = true }
    program  = { package = { file = "tests/functions/ingest/bootstrap.zip" }, memory_mb = 256, timeout_seconds = 29, live_version = "41" }
  }

  assert {
    condition = (
      length(aws_lambda_alias.shifted) == 0 && aws_lambda_alias.live[0].function_version == "41"
      && aws_lambda_alias.live[0].name == "live" && output.qualifier == "live"
    )
    error_message = "the alias is ${jsonencode(aws_lambda_alias.live)}"
  }
}

run "or_leaves_it_to_a_rollout" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = { account = { id = "123456789012", region = "eu-central-1", partition = "aws" }, architecture = "arm64", log_retention_days = 30, versions = true, rollout = true }
  }

  assert {
    condition = (
      length(aws_lambda_alias.live) == 0 && aws_lambda_alias.shifted[0].name == "live" && output.qualifier == "live"
      && aws_lambda_alias.shifted[0].description == "The version that is invoked; gridpost rollout leads it"
    )
    error_message = "the alias is ${jsonencode(aws_lambda_alias.shifted)}"
  }
}

run "refuses_two_who_lead_an_alias" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = { account = { id = "123456789012", region = "eu-central-1", partition = "aws" }, architecture = "arm64", log_retention_days = 30, versions = true, rollout = true }
    program  = { package = { file = "tests/functions/ingest/bootstrap.zip" }, memory_mb = 256, timeout_seconds = 29, live_version = "41" }
  }

  expect_failures = [aws_lambda_alias.shifted]
}

run "refuses_a_rollout_without_versions" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = { account = { id = "123456789012", region = "eu-central-1", partition = "aws" }, architecture = "arm64", log_retention_days = 30, rollout = true }
  }

  expect_failures = [aws_lambda_function.this]
}

run "what_runs_is_traced_where_that_is_wanted" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    settings = { account = { id = "123456789012", region = "eu-central-1", partition = "aws" }, architecture = "arm64", log_retention_days = 30, tracing = true }
  }

  assert {
    condition     = one(aws_lambda_function.this.tracing_config).mode == "Active"
    error_message = "tracing is ${jsonencode(aws_lambda_function.this.tracing_config)}"
  }

  assert {
    condition = [for statement in jsondecode(output.policy).Statement : statement if contains(statement.Resource, "*")] == [{
      Sid      = "SendTraces", Effect = "Allow"
      Action   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
      Resource = ["*"]
    }]
    error_message = "the role may ${output.policy}"
  }
}

run "nothing_is_traced_by_default" {
  command = plan

  module {
    source = "./modules/function"
  }

  assert {
    condition     = !strcontains(output.policy, "xray:")
    error_message = "the role may ${output.policy}"
  }
}

run "a_function_may_share_a_log_group" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    log_group_name = "/aws/lambda/gridpost-intake"
  }

  assert {
    condition = (
      length(aws_cloudwatch_log_group.this) == 0
      && aws_lambda_function.this.logging_config[0].log_group == "/aws/lambda/gridpost-intake"
      && output.log_group_name == "/aws/lambda/gridpost-intake"
      && strcontains(output.policy, "log-group:/aws/lambda/gridpost-intake:*")
    )
    error_message = "it logs into ${output.log_group_name}"
  }
}

# Lambda removes the interfaces with the role's permissions, up to 20 minutes after the function has left them.
run "a_function_leaves_its_network_before_its_permission_goes" {
  command = plan

  module {
    source = "./modules/function"
  }

  variables {
    vpc = { subnet_ids = [], security_group_ids = [] }
  }

  assert {
    condition     = length(aws_lambda_function.this.vpc_config) == 0 && output.network_policy != null
    error_message = "the function stays in the VPC, or can't leave it clean"
  }
}
