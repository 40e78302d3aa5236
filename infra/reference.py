#!/usr/bin/env python3
"""Keeps what follows from the module's inputs and outputs: their tables in README.md (and in that of
modules/aws-source), and infra/deploy, which passes them on.

    python3 infra/reference.py           writes them
    python3 infra/reference.py --check   exits with 1 if they are not as they would be written
"""

import re
import sys
from pathlib import Path

INFRA = Path(__file__).resolve().parent
GENERATED = "# Written by infra/reference.py: what the module takes and gives, passed on."


def blocks(kind, path):
    """The blocks of a kind in a file, as (name, text between the braces), in their order."""
    pattern = rf'^{kind} "([a-z0-9_]+)" {{\n(.*?)^}}$'
    return re.findall(pattern, path.read_text(), re.S | re.M)


def argument(body, name):
    """The text of a block's argument, several lines long where it has brackets; None without one."""
    found = re.search(rf"^  {name} += ((?:.*\n(?:    .*\n|  [)\]}}].*\n|\n(?=    ))*))", body, re.M)
    return found and found.group(1).rstrip("\n")


def text(body):
    """The description of a variable or an output."""
    description = argument(body, "description")
    if not description:
        raise SystemExit(f"no description in\n{body}")
    return description.strip('"').replace('\\"', '"').replace("$${", "${")


def cell(value):
    """A text as a cell of a table of Markdown."""
    one_line = " ".join(value.split())
    return one_line.replace("|", "\\|").replace("<", "&lt;")


def tables(inputs, outputs):
    """Inputs and outputs as two tables of Markdown."""
    lines = ["| input | type | default | |", "|---|---|---|---|"]
    for name, body in inputs:
        kind = cell(argument(body, "type"))
        kind = re.sub(r"\( ", "(", kind) if len(kind) < 60 else kind.split("(")[0] + "(…)"
        default = argument(body, "default")
        default = "required" if default is None else f"`{cell(default)}`"
        lines.append(f"| `{name}` | `{kind}` | {default} | {cell(text(body))} |")
    lines += ["", "| output | |", "|---|---|"]
    lines += [f"| `{name}` | {cell(text(body))} |" for name, body in outputs]
    return "\n".join(lines)


def readme(inputs, outputs):
    """README.md with its tables as they must be."""
    return fill(INFRA / "README.md", inputs, outputs)


def fill(path, inputs, outputs):
    """A page with its tables as they must be."""
    now = path.read_text()
    before, rest = now.split("<!-- reference -->", 1)
    _, after = rest.split("<!-- end of reference -->", 1)
    table = tables(inputs, outputs)
    return f"{before}<!-- reference -->\n\n{table}\n\n<!-- end of reference -->{after}"


def module_readme(folder):
    """README.md of a module with its tables as they must be."""
    return fill(folder / "README.md", blocks("variable", folder / "variables.tf"), blocks("output", folder / "outputs.tf"))


def variables(inputs):
    """infra/deploy/variables.tf: the module checks types, and null is its own default. A variable without
    a type takes a value of the command line as it is, one of any type takes it as an expression."""
    lines = [GENERATED, "# Each is described in the table of inputs in infra/README.md.", ""]
    for name, body in inputs:
        if argument(body, "type") in ("bool", "number", "string"):
            lines.append(f'variable "{name}" {{ default = null }}')
        else:
            lines += ["", f'variable "{name}" {{', "  type    = any", "  default = null", "}", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def main_file(inputs):
    """infra/deploy/main.tf."""
    width = max(len(name) for name, _ in inputs)
    passed = "\n".join(f"  {name:<{width}} = var.{name}" for name, _ in inputs)
    return f'{GENERATED}\n\nmodule "gridpost" {{\n  source = "../"\n\n{passed}\n}}\n'


def outputs_file(outputs):
    """infra/deploy/outputs.tf."""
    lines = [GENERATED, "# Each is described in the table of outputs in infra/README.md.", ""]
    lines += [f'output "{name}" {{ value = module.gridpost.{name} }}' for name, _ in outputs]
    return "\n".join(lines) + "\n"


def main():
    """Writes or checks every file."""
    inputs = blocks("variable", INFRA / "variables.tf")
    outputs = blocks("output", INFRA / "outputs.tf")
    wanted = {
        "README.md": readme(inputs, outputs),
        "modules/aws-source/README.md": module_readme(INFRA / "modules/aws-source"),
        "deploy/main.tf": main_file(inputs),
        "deploy/variables.tf": variables(inputs),
        "deploy/outputs.tf": outputs_file(outputs),
    }
    stale = []
    for name, content in wanted.items():
        path = INFRA / name
        if not path.exists() or path.read_text() != content:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                path.write_text(content)
    if "--check" in sys.argv[1:] and stale:
        print(f"not as the module is: {', '.join(stale)} in infra/; run python3 infra/reference.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
