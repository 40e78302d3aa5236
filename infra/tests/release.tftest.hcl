# A release as release/build packs it: zips side by side, and release.json, which says what they are.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "a_release_is_taken_by_its_hashes" {
  command = plan

  variables {
    architecture     = jsondecode(file("tests/release/release.json")).architecture
    functions_dir    = "tests/release"
    functions_sha256 = jsondecode(file("tests/release/release.json")).sha256
  }

  assert {
    condition = alltrue([
      for program, package in local.packages :
      package.file == "${path.root}/tests/release/${program}.zip" && package.sha256 == filebase64sha256("tests/release/${program}.zip")
    ])
    error_message = "functions come from ${jsonencode(local.packages)}"
  }
}

run "or_out_of_a_bucket" {
  command = plan

  variables {
    functions_bucket = {
      name       = "releases"
      key_prefix = jsondecode(file("tests/release/release.json")).key_prefix
      sha256     = jsondecode(file("tests/release/release.json")).sha256
    }
  }

  assert {
    condition     = local.packages["wake"].key == "gridpost/0.0.0/arm64/wake.zip" && local.packages["wake"].bucket == "releases"
    error_message = "functions come from ${jsonencode(local.packages)}"
  }
}
