#!/usr/bin/env python3
"""Compares every argument and attribute that the module and its examples use with another version of the AWS provider, where
that provider itself can't be run. The schema comes from the package that CDK for Terraform generates from it:

    npm pack @cdktf/provider-aws@21.22.1     # made from AWS provider 6.25.0
    tar -xzf cdktf-provider-aws-21.22.1.tgz
    python3 infra/tests/provider_schema.py package

It says what the package is made from, and ends with 1 if anything is not known there. Needs Terraform with its providers, as
the plans are made by these. Names alone are compared: which values an argument takes is not in the package.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import examples_doctor  # noqa: E402


def pairs(text):
    """Names and what their values are made by, of lines `name: value,`."""
    return dict(re.findall(r"^ +(\w+): (.*?),?$", text, re.MULTILINE))


class Type:
    """A resource's or a data source's schema."""

    def __init__(self, source):
        self.source = source
        self.blocks = {}
        for name, body in re.findall(r"^(?:export )?function (\w+)ToTerraform\(struct\) {(.*?)\n}", source, re.DOTALL | re.MULTILINE):
            told = re.search(r"return {(.*?)\n    };", body, re.DOTALL)
            self.blocks[name] = pairs(told[1]) if told else {}
        self.arguments = pairs(re.search(r"synthesizeAttributes\(\) {\s*return {(.*?)\n        };", source, re.DOTALL)[1])

    def block(self, made_by):
        """The arguments of a nested block; none where the package leaves it open."""
        name = re.search(r"(\w+)ToTerraform\b", made_by)
        return self.blocks.get(name[1]) if name else None

    def has(self, attribute):
        """Whether it has this attribute."""
        camel = re.sub(r"_(\w)", lambda found: found[1].upper(), attribute)
        return re.search(rf"\bget {camel}\(\)", self.source) is not None


class Schema:
    """All of a package."""

    def __init__(self, package):
        self.made_from = re.search(r"provider version (\S+)", (package / "README.md").read_text())[1]
        self.files = {}
        for path in (package / "lib").glob("*/index.js"):
            source = path.read_text(errors="replace")
            found = re.search(r'tfResourceType = ["\'](\w+)["\']', source)
            if found:
                mode = "data" if path.parent.name.startswith("data-aws-") else "managed"
                self.files[mode, found[1]] = path
        self.types = {}

    def of(self, mode, name):
        """A type, or none that is known."""
        if (mode, name) not in self.types:
            path = self.files.get((mode, name))
            self.types[mode, name] = Type(path.read_text(errors="replace")) if path else None
        return self.types[mode, name]


class Comparison:
    """What is used, and what of it is not known."""

    def __init__(self, schema):
        self.schema = schema
        self.used = 0
        self.unknown = set()
        self.open = set()

    def block(self, where, expressions, known, of):
        """Arguments of a resource or of a block in it."""
        for name, expression in expressions.items():
            self.used += 1
            if name not in known:
                self.unknown.add(f"{where}.{name}")
                continue
            for inner in expression if isinstance(expression, list) else [expression]:
                # A value, not a block.
                if not inner or {"references", "constant_value"} & inner.keys():
                    continue
                block = of.block(known[name])
                if block is None:
                    self.open.add(f"{where}.{name}")
                else:
                    self.block(f"{where}.{name}", inner, block, of)

    def references(self, value):
        """Attributes that expressions read."""
        if isinstance(value, dict):
            for name, member in value.items():
                for text in member if name == "references" else []:
                    self.reference(text)
                self.references(member)
        elif isinstance(value, list):
            for member in value:
                self.references(member)

    def reference(self, text):
        """One: `aws_sqs_queue.retry[0].arn`."""
        found = re.match(r"(data\.)?(aws_\w+)\.\w+(?:\[[^]]*])*\.(\w+)", text)
        if found:
            self.used += 1
            of = self.schema.of("data" if found[1] else "managed", found[2])
            if of is None or not of.has(found[3]):
                self.unknown.add(text)

    def module(self, module):
        """A module and those that it calls."""
        for resource in module.get("resources", []):
            if not resource["type"].startswith("aws_"):
                continue
            of = self.schema.of(resource["mode"], resource["type"])
            if of is None:
                self.unknown.add(resource["type"])
            else:
                self.block(resource["address"], resource.get("expressions", {}), of.arguments, of)
        self.references(module.get("resources", []))
        self.references(module.get("outputs", {}))
        for call in module.get("module_calls", {}).values():
            self.references(call.get("expressions", {}))
            self.module(call["module"])


def main(package):
    """Compares, and tells; 1 where anything is not known."""
    compared = Comparison(Schema(package))
    for _, plan, _ in examples_doctor.plans():
        compared.module(json.loads(plan)["configuration"]["root_module"])
    types = sum(found is not None for found in compared.schema.types.values())
    print(f"AWS provider {compared.schema.made_from}: {compared.used} uses of {types} types")
    for name in sorted(compared.open):
        print(f"not described there: {name}")
    for name in sorted(compared.unknown):
        print(f"NOT KNOWN: {name}")
    return 1 if compared.unknown or not compared.used else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
