# The roots that use the module, planned as they stand: the one that is applied, and the examples. A relative
# functions_dir is from each of them.

mock_provider "aws" {
  source = "./tests/mocks"
}

# Of the roots that have a second one.
mock_provider "aws" {
  alias  = "global"
  source = "./tests/mocks"
}

mock_provider "aws" {
  alias  = "elsewhere"
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

run "a_complete_example_has_a_roots_own_topic_bucket_and_boundary" {
  command = plan

  module {
    source = "./examples/complete"
  }

  variables {
    kms_key_arn              = "arn:aws:kms:eu-central-1:123456789012:key/k"
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    functions_bucket = {
      name       = "releases"
      key_prefix = "1.0.0/arm64/"
      sha256 = {
        for name in ["ingest", "expand", "dispatch-resources", "dead-letter", "redrive", "manage", "wake"] : name => base64sha256(name)
      }
    }
  }
}

run "an_example_delivers_into_a_private_network" {
  command = plan

  module {
    source = "./examples/private-network"
  }
}

run "an_example_has_domains_and_a_firewall" {
  command = plan

  module {
    source = "./examples/custom-domain"
  }

  variables {
    zone = "example.com"
  }
}

run "an_export_deploys_what_its_documents_ask_for" {
  command = plan

  module {
    source = "./examples/exported"
  }

  assert {
    condition = (
      local.buckets["gridpost"] == "gridpost-dead-letters-123456789012-eu-central-1"
      && module.gridpost.function_names["dispatch"] == "gridpost-dispatch"
    )
    error_message = "dead letters go to ${jsonencode(local.buckets)}"
  }
}

run "an_example_takes_events_of_every_kind_of_source_in" {
  command = plan

  module {
    source = "./examples/aws-sources"
  }

  assert {
    condition     = module.gridpost.aws_sources.function.log_group_name == "/aws/lambda/gridpost-intake"
    error_message = "sources log into ${jsonencode(module.gridpost.aws_sources.function.log_group_name)}"
  }
}

run "the_module_takes_for_each_count_providers_and_depends_on" {
  command = plan

  module {
    source = "./tests/uses"
  }

  variables {
    functions_dir = "../functions"
  }

  assert {
    condition     = output.config_tables == { orders = "orders-config", billing = "billing-config" }
    error_message = "the deployments have ${jsonencode(output.config_tables)}"
  }

  assert {
    condition     = output.counted_bucket == "counted-0-dead-letters-123456789012-us-east-1"
    error_message = "the bucket is ${output.counted_bucket}"
  }
}
