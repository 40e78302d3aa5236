# The module that makes an event subscription: what it asks of the manage function, and what it refuses by itself.

mock_provider "aws" {
  source = "./tests/mocks"

  mock_data "aws_lambda_invocation" {
    defaults = { result = "{\"problems\":[]}" }
  }

  mock_resource "aws_lambda_invocation" {
    defaults = {
      result = "{\"id\":\"/topics/shop/eventSubscriptions/billing\",\"properties\":{\"provisioningState\":\"Succeeded\"}}"
    }
  }
}

variables {
  manage_function_name = "gridpost-manage"
  topic                = "shop"
  name                 = "billing"
  document = {
    properties = {
      destination = {
        endpointType = "WebHook"
        properties   = { endpointUrl = "https://example.com/hook", maxEventsPerBatch = 10 }
      }
      filter = { includedEventTypes = ["Shop.OrderPlaced"] }
      labels = null
    }
  }
}

run "the_document_is_asked_about_and_then_written_as_it_stands" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  assert {
    condition = jsondecode(data.aws_lambda_invocation.validation[0].input) == {
      terraform = "validate"
      topic     = "shop"
      name      = "billing"
      document  = var.document
    }
    error_message = "asked ${nonsensitive(data.aws_lambda_invocation.validation[0].input)}"
  }

  assert {
    condition = jsondecode(aws_lambda_invocation.document.input) == {
      terraform = "write"
      topic     = "shop"
      name      = "billing"
      document  = var.document
    }
    error_message = "written ${nonsensitive(aws_lambda_invocation.document.input)}"
  }

  assert {
    condition = (
      jsondecode(aws_lambda_invocation.removal.input) == { terraform = "remove", topic = "shop", name = "billing" }
      && aws_lambda_invocation.removal.lifecycle_scope == "CRUD"
      && aws_lambda_invocation.removal.triggers == tomap({ topic = "shop", name = "billing" })
    )
    error_message = "removed by ${jsonencode(aws_lambda_invocation.removal)}"
  }

  assert {
    condition     = terraform_data.document.input == var.document
    error_message = "a plan shows ${jsonencode(terraform_data.document.input)}"
  }
}

run "another_spelling_of_its_names_replaces_nothing" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    topic = "Shop"
    name  = "BILLING"
  }

  assert {
    condition = (
      aws_lambda_invocation.removal.triggers == tomap({ topic = "shop", name = "billing" })
      && jsondecode(aws_lambda_invocation.removal.input).name == "BILLING"
    )
    error_message = "removed by ${jsonencode(aws_lambda_invocation.removal)}"
  }
}

run "secrets_join_the_document_that_is_sent_and_no_other" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    endpoint_url   = "https://example.com/hook?code=hush"
    secret_headers = { X-Token = "hush-hush" }
    document = {
      properties = {
        destination = {
          endpointType = "WebHook"
          properties = {
            deliveryAttributeMappings = [{ name = "X-Kind", type = "Dynamic", properties = { sourceField = "data.kind" } }]
          }
        }
      }
    }
  }

  assert {
    condition = jsondecode(nonsensitive(aws_lambda_invocation.document.input)).document.properties.destination == {
      endpointType = "WebHook"
      properties = {
        endpointUrl = "https://example.com/hook?code=hush"
        deliveryAttributeMappings = [
          { name = "X-Kind", type = "Dynamic", properties = { sourceField = "data.kind" } },
          { name = "X-Token", type = "Static", properties = { value = "hush-hush", isSecret = true } },
        ]
      }
    }
    error_message = "written ${nonsensitive(aws_lambda_invocation.document.input)}"
  }

  assert {
    condition = (
      issensitive(aws_lambda_invocation.document.input) && issensitive(data.aws_lambda_invocation.validation[0].input)
      && !issensitive(terraform_data.document.input) && !strcontains(jsonencode(terraform_data.document.input), "hush")
    )
    error_message = "a secret shows in a plan"
  }
}

run "what_was_written_is_put_out" {
  module {
    source = "./modules/event-subscription"
  }

  assert {
    condition = (
      output.id == "/topics/shop/eventSubscriptions/billing" && output.provisioning_state == "Succeeded"
      && output.document.properties.provisioningState == "Succeeded"
    )
    error_message = "put out ${output.id}, ${output.provisioning_state}"
  }
}

run "every_problem_fails_the_plan" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  override_data {
    target = data.aws_lambda_invocation.validation[0]
    values = { result = "{\"problems\":[\"properties.a is not known\",\"properties.b is not known\"]}" }
  }

  expect_failures = [data.aws_lambda_invocation.validation[0]]
}

run "a_plan_under_a_role_that_may_not_invoke_asks_nothing" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    validate_at_plan = false
  }

  assert {
    condition     = length(data.aws_lambda_invocation.validation) == 0
    error_message = "manage is asked"
  }
}

run "refuses_names_and_documents_that_cannot_be" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    manage_function_name = "not a function"
    topic                = "no/topic"
    name                 = "n"
    document             = { destination = {} }
  }

  expect_failures = [var.manage_function_name, var.topic, var.name, var.document]
}

run "refuses_a_url_that_is_given_twice" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    endpoint_url = "https://example.com/hook?code=hush"
  }

  expect_failures = [var.endpoint_url]
}

run "refuses_a_url_without_its_scheme" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    endpoint_url = "example.com/hook"
    document     = { properties = {} }
  }

  expect_failures = [var.endpoint_url]
}

run "refuses_headers_of_ours" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    secret_headers = { AEG-Token = "hush" }
  }

  expect_failures = [var.secret_headers]
}

run "refuses_more_headers_than_a_delivery_carries" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    secret_headers = { for index in range(11) : "X-${index}" => "hush" }
  }

  expect_failures = [var.secret_headers]
}

run "a_document_of_an_aws_resource_is_written_as_it_stands" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    document = {
      properties = {
        destination = {
          endpointType = "SqsQueue"
          properties = {
            resourceId     = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo"
            messageGroupId = { type = "Dynamic", properties = { sourceField = "data.customer" } }
          }
        }
      }
    }
  }

  assert {
    condition     = jsondecode(aws_lambda_invocation.document.input).document == var.document
    error_message = "written ${nonsensitive(aws_lambda_invocation.document.input)}"
  }
}

run "a_private_key_joins_the_authentication" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    private_key = "hush"
    document = { properties = { destination = { endpointType = "WebHook", properties = {
      endpointUrl    = "https://example.com/hook"
      authentication = { type = "ClientCertificate", properties = { certificate = "c" } }
    } } } }
  }

  assert {
    condition = nonsensitive(jsondecode(aws_lambda_invocation.document.input).document.properties.destination.properties.authentication) == {
      type       = "ClientCertificate"
      properties = { certificate = "c", privateKey = "hush" }
    }
    error_message = "sent ${nonsensitive(aws_lambda_invocation.document.input)}"
  }
}

run "refuses_a_private_key_beside_a_client_secret" {
  command = plan

  module {
    source = "./modules/event-subscription"
  }

  variables {
    private_key   = "hush"
    client_secret = "hush"
    document = { properties = { destination = { endpointType = "WebHook", properties = {
      endpointUrl    = "https://example.com/hook"
      authentication = { type = "OAuth2ClientCredentials", properties = { clientId = "c" } }
    } } } }
  }

  expect_failures = [var.private_key]
}
