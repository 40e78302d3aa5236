#!/usr/bin/env python3
"""The plan that the tests of `gridpost doctor` change: the module with its defaults, planned by Terraform without AWS, and of
that what doctor reads.

    python3 infra/tests/plan_fixture.py           writes it
    python3 infra/tests/plan_fixture.py --check   exits with 1 if it is not as it would be written
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent
DOCTOR = INFRA.parent / "cli/ops/src/doctor"
FIXTURE = DOCTOR / "plan.json"
ROOT = """
terraform {{
  required_providers {{
    aws = {{
      source  = "hashicorp/aws"
      version = ">= 5.90, < 7"
    }}
  }}
}}

provider "aws" {{
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
}}

module "gridpost" {{
  source        = "{infra}"
  account       = {{ id = "123456789012", region = "eu-central-1" }}
  functions_dir = "{infra}/tests/functions"
}}
"""
# Arguments by which resources name others.
NAMING = {"api_id", "role", "event_source_arn", "function_name", "integration_uri"}
# What differs from machine to machine, or is the same everywhere.
LEFT_OUT = {"filename", "source_code_hash", "tags_all", "id"}
# The words of doctor's code and of its table of permissions: it reads no member of another name.
SOURCES = (DOCTOR.with_suffix(".rs"), *DOCTOR.glob("*.rs"), DOCTOR / "needed.json")
READ = {word for source in SOURCES for word in re.findall(r"\w+", source.read_text())}


def planned():
    """The plan as Terraform tells it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.tf").write_text(ROOT.format(infra=INFRA))

        def terraform(*arguments):
            told = subprocess.run(["terraform", *arguments], cwd=folder, capture_output=True, text=True, check=False)
            if told.returncode:
                sys.exit(told.stdout + told.stderr)
            return told.stdout

        terraform("init", "-input=false", "-no-color")
        terraform("plan", "-input=false", "-no-color", "-refresh=false", "-out", "plan")
        return json.loads(terraform("show", "-json", "plan"))


def values_of(module):
    """A module's resources with what is known of them."""
    kept = {}
    for resource in module.get("resources", []):
        values = {
            name: value
            for name, value in resource["values"].items()
            if name in READ - LEFT_OUT and value not in (None, [], {}, "")
        }
        small = {name: resource[name] for name in ("address", "mode", "type")}
        kept.setdefault("resources", []).append({**small, "values": values})
    for child in module.get("child_modules", []):
        kept.setdefault("child_modules", []).append(values_of(child))
    return kept


def configuration_of(module):
    """A module's configuration: the providers of resources, and which of them name which."""
    kept = {}
    for resource in module.get("resources", []):
        if resource["mode"] == "data":
            continue
        told = {name: resource[name] for name in ("address", "provider_config_key")}
        named = {name: value for name, value in resource.get("expressions", {}).items() if name in NAMING}
        if named:
            told["expressions"] = named
        kept.setdefault("resources", []).append(told)
    for name, call in module.get("module_calls", {}).items():
        kept.setdefault("module_calls", {})[name] = {"module": configuration_of(call["module"])}
    return kept


def ordered(value):
    """Resources and modules in an order of their own: Terraform tells them in any."""
    if isinstance(value, dict):
        in_order = {name: ordered(member) for name, member in value.items()}
        for name in {"resources", "child_modules"} & in_order.keys():
            in_order[name].sort(key=lambda member: json.dumps(member, sort_keys=True))
        return in_order
    return [ordered(member) for member in value] if isinstance(value, list) else value


def written(value, indent=""):
    """A value as JSON: on one line where that has at most 110 columns."""
    line = json.dumps(value, sort_keys=True)
    if not isinstance(value, dict | list) or len(indent + line) <= 110:
        return line
    inner = indent + " "
    if isinstance(value, list):
        members, brackets = [written(member, inner) for member in value], "[]"
    else:
        members, brackets = [f"{json.dumps(name)}: {written(value[name], inner)}" for name in sorted(value)], "{}"
    return brackets[0] + ",".join(f"\n{inner}{member}" for member in members) + f"\n{indent}{brackets[1]}"


def fixture():
    """The fixture's text."""
    plan = planned()
    aws = plan["configuration"]["provider_config"]["aws"]
    kept = {
        "format_version": plan["format_version"],
        "planned_values": {"root_module": values_of(plan["planned_values"]["root_module"])},
        "configuration": {
            "provider_config": {"aws": {name: aws[name] for name in ("full_name", "version_constraint")}},
            "root_module": configuration_of(plan["configuration"]["root_module"]),
        },
    }
    return written(ordered(kept)) + "\n"


def main():
    """Writes or checks it."""
    text = fixture()
    if "--check" not in sys.argv[1:]:
        FIXTURE.write_text(text)
        return 0
    if not FIXTURE.exists() or FIXTURE.read_text() != text:
        print(f"{FIXTURE} is not as the module is planned; run python3 infra/tests/plan_fixture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
