# The roots that use the module, planned as they stand: the one that is applied, and the examples. A relative
# functions_dir is from each of them.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  functions_dir = "../../tests/functions"
}

run "the_root_deploys_the_module" {
  command = plan

  module {
    source = "./deploy"
  }

  variables {
    region        = "eu-central-1"
    name_prefix   = "other"
    functions_dir = "../tests/functions"
  }

  assert {
    condition     = output.name_prefix == "other" && output.function_names["wake"] == "other-wake" && output.region == "eu-central-1"
    error_message = "the root passes nothing on: ${jsonencode(output.function_names)}"
  }
}

run "the_root_asks_where_events_are_kept" {
  command = plan

  module {
    source = "./deploy"
  }

  variables {
    region        = "Frankfurt"
    functions_dir = "../tests/functions"
  }

  expect_failures = [var.region]
}

run "the_smallest_example_has_every_default" {
  command = plan

  module {
    source = "./examples/smallest"
  }
}
