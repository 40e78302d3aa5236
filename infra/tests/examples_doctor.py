#!/usr/bin/env python3
"""Plans each example as it stands and has `gridpost doctor --plan` find no fault in it: what a reader copies, AWS takes. And it
plans configurations as users may write them (PASSED_BY), in which doctor must find what is listed, and nothing else.

    python3 infra/tests/examples_doctor.py [GRIDPOST]     the program; without it cargo builds and runs it

Needs Terraform with its providers, and no AWS: what the examples ask while they are planned is answered here.
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

INFRA = Path(__file__).resolve().parent.parent
FUNCTIONS = INFRA / "tests/functions"
RELEASE = (
    '{ name = "releases", key_prefix = "1.0.0/arm64/", sha256 = { '
    + ", ".join(
        f'"{name}" = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="'
        for name in ["ingest", "expand", "dispatch-resources", "dead-letter", "redrive", "manage", "wake"]
    )
    + " }"
    + " }"
)
# Each example's inputs, and what doctor is told of the account that the example is for.
EXAMPLES = {
    "aws-sources": ({"functions_dir": str(FUNCTIONS)}, []),
    "complete": (
        {
            "kms_key_arn": "arn:aws:kms:eu-central-1:123456789012:key/k",
            "permissions_boundary_arn": "arn:aws:iam::123456789012:policy/boundary",
            "functions_bucket": RELEASE,
        },
        ["--account-concurrency", "3000"],
    ),
    "custom-domain": ({"zone": "example.com", "functions_dir": str(FUNCTIONS)}, []),
    "exported": ({"functions_dir": str(FUNCTIONS)}, []),
    "private-network": ({"functions_dir": str(FUNCTIONS)}, []),
    "smallest": ({"functions_dir": str(FUNCTIONS)}, []),
}
# What doctor finds in tests/passed_by: fault and address.
PASSED_BY = {
    "cdn-passed-by: aws_cloudfront_distribution.orders",
    "cdn-passed-by: module.cdn.aws_cloudfront_distribution.this",
    "cdn-passed-by: module.cdn_of_url.aws_cloudfront_distribution.this",
    "cdn-passed-by: module.cdn_of_domain.aws_cloudfront_distribution.this",
    "cdn-without-secret: module.cdn_without_secret.aws_cloudfront_distribution.this",
}
IDENTITY = (
    "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account><UserId>U</UserId>"
    "<Arn>arn:aws:iam::123456789012:user/u</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
)
ZONE = (
    "<HostedZone><Id>/hostedzone/Z1</Id><Name>example.com.</Name><CallerReference>c</CallerReference>"
    "<Config><PrivateZone>false</PrivateZone></Config></HostedZone>"
)
# By the beginning of what is asked for: the longer ones first.
ANSWERS = {
    "GET /2013-04-01/hostedzone/": f"<GetHostedZoneResponse>{ZONE}<DelegationSet><NameServers>"
    "<NameServer>ns.example.com</NameServer></NameServers></DelegationSet></GetHostedZoneResponse>",
    "GET /2013-04-01/hostedzone": f"<ListHostedZonesResponse><HostedZones>{ZONE}</HostedZones>"
    "<IsTruncated>false</IsTruncated><MaxItems>100</MaxItems></ListHostedZonesResponse>",
    "GET /2013-04-01/tags/": "<ListTagsForResourceResponse><ResourceTagSet><ResourceType>hostedzone</ResourceType>"
    "<ResourceId>Z1</ResourceId><Tags/></ResourceTagSet></ListTagsForResourceResponse>",
    "POST /": IDENTITY,
}


class Aws(BaseHTTPRequestHandler):
    """Says whose account it is, and which zone there is."""

    def answer(self):
        """Answers from the table."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        found = [text for start, text in ANSWERS.items() if self.requestline.startswith(start)]
        self.send_response(200 if found else 400)
        body = (found or [f"<Error><Code>{self.requestline}</Code></Error>"])[0].encode()
        self.send_header("content-type", "text/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        """Says nothing."""


def overridden(root, url):
    """Providers that ask `url` instead of AWS, each as the example has it otherwise."""
    text = (root / "main.tf").read_text()
    blocks = re.findall(r'^provider "aws" {(.*?)}$', text, re.S | re.M)
    parts = []
    for block in blocks:
        alias = re.search(r'alias += "(\w+)"', block)
        # The smallest one leaves its region to the environment.
        region = "" if "region" in block else '  region = "eu-central-1"\n'
        parts.append(
            'provider "aws" {\n'
            + (f'  alias = "{alias[1]}"\n' if alias else "")
            + region
            + '  access_key = "none"\n  secret_key = "none"\n'
            + "  skip_credentials_validation = true\n  skip_metadata_api_check = true\n"
            + f'  endpoints {{\n    sts = "{url}"\n    route53 = "{url}"\n  }}\n}}\n'
        )
    return "".join(parts)


def planned(root, inputs):
    """The example's plan, as Terraform tells it."""

    def terraform(*arguments):
        told = subprocess.run(["terraform", *arguments], cwd=root, capture_output=True, text=True, check=False)
        if told.returncode:
            sys.exit(f"{root.name}: terraform {arguments[0]}\n{told.stdout}{told.stderr}")
        return told.stdout

    variables = [f"-var={name}={value}" for name, value in inputs.items()]
    terraform("init", "-input=false", "-no-color", "-backend=false")
    terraform("plan", "-input=false", "-no-color", "-out", "plan", *variables)
    return terraform("show", "-json", "plan")


def doctor(program, plan, account):
    """Exit code and words of a run of doctor."""
    told = subprocess.run(
        [*program, "doctor", "--plan", "-", *account],
        cwd=INFRA.parent,
        input=plan,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.returncode, told.stdout.strip() or told.stderr.strip()


def plans():
    """Each example's name, plan, and what doctor is told of the account that it is for."""
    found = {path.parent.name for path in INFRA.glob("examples/*/main.tf")}
    if found != EXAMPLES.keys():
        sys.exit(f"{Path(__file__).name} knows {sorted(EXAMPLES)}, and infra/examples has {sorted(found)}")
    with copied() as (copy, url):
        for name, (inputs, account) in sorted(EXAMPLES.items()):
            root = copy / "examples" / name
            (root / "here_override.tf").write_text(overridden(root, url))
            yield name, planned(root, inputs), account


@contextlib.contextmanager
def copied():
    """A copy of all configurations, and the URL of what answers for AWS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Aws)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "infra")
        shutil.copytree(INFRA, copy, ignore=shutil.ignore_patterns(".terraform", "*.tfstate*"))
        yield copy, f"http://127.0.0.1:{server.server_port}"


def passed_by(program):
    """Whether doctor finds exactly what it should in what users write; it prints what is amiss."""
    with copied() as (copy, url):
        root = copy / "tests/passed_by"
        (root / "here_override.tf").write_text(overridden(root, url))
        plan = planned(root, {"functions_dir": str(FUNCTIONS)})
    _, words = doctor(program, plan, ["--account-concurrency", "10000"])
    found = set(re.findall(r"^[a-z-]+: \S+$", words, re.M))
    for fault in sorted(found ^ PASSED_BY):
        print(f"passed_by: {'missed' if fault in PASSED_BY else 'found'}: {fault}")
    return found == PASSED_BY


def main(program):
    """Plans and checks all of them; 1 where one has a fault."""
    failed = 0
    for name, plan, account in plans():
        code, words = doctor(program, plan, account)
        print(f"{name}: {words}", flush=True)
        failed |= code != 0
        # That nothing is found says something only where something can be.
        code, words = doctor(program, plan, ["--account-concurrency", "10"])
        if code != 1 or "concurrency" not in words:
            print(f"{name}: in an account of ten concurrent runs doctor finds nothing: {words}")
            failed = True
    return 0 if passed_by(program) and not failed else 1


# By the program, not by its package: alone, that is compiled with fewer features of what all share.
CARGO = ["cargo", "run", "--quiet", "--bin", "gridpost", "--"]
if __name__ == "__main__":
    sys.exit(main([str(Path(sys.argv[1]).resolve())] if len(sys.argv) > 1 else CARGO))
