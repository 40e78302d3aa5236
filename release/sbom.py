"""What packages are made of, as CycloneDX 1.5, from `cargo metadata`: all that is linked or used to build, and nothing that only
tests use. A script of its own, because a tool for it would take longer to compile than a release.
"""

import json
import subprocess
import tomllib
from collections import deque


def metadata(root):
    """The whole graph as Cargo.lock has it."""
    told = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"], cwd=root, check=True, capture_output=True
    )
    return json.loads(told.stdout)


def reachable(nodes, roots):
    """Ids of packages that these need, without what only their tests need."""
    seen, queue = set(roots), deque(roots)
    while queue:
        for dependency in needed(nodes[queue.popleft()]):
            if dependency not in seen:
                seen.add(dependency)
                queue.append(dependency)
    return seen


def needed(node):
    """Ids of a package's own dependencies."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]


def reference(package):
    """Its package URL (purl)."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    """A package as a component."""
    found = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Old packages separate choices by a slash.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def checksums_of(root):
    """By name and version, from Cargo.lock."""
    locked = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package["checksum"] for package in locked if "checksum" in package}


def bill_of_materials(root, names):
    """The document for the packages of these names."""
    graph = metadata(root)
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    roots = [id for id in graph["workspace_members"] if packages[id]["name"] in names]
    if len(roots) != len(names):
        raise SystemExit(f"not all of {', '.join(names)} are in the workspace")
    ids = sorted(reachable(nodes, roots), key=lambda id: reference(packages[id]))
    checksums = checksums_of(root)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "gridpost",
                "name": "gridpost",
                "version": packages[roots[0]]["version"],
            }
        },
        "components": [component(packages[id], checksums) for id in ids],
        "dependencies": [{"ref": "gridpost", "dependsOn": sorted(reference(packages[id]) for id in roots)}]
        + [
            {"ref": reference(packages[id]), "dependsOn": sorted({reference(packages[of]) for of in needed(nodes[id])})}
            for id in ids
        ],
    }
