"""Hooks of schemathesis: no endpoint that it makes up is called, and all it makes is its own.

`GRIDPOST_ENDPOINT` is the URL of a receiver on this machine. Wherever a document has a URL as
`endpointUrl`, that one is sent: the resource API asks endpoints for their consent.
"""

import os

import schemathesis

ENDPOINT = os.environ["GRIDPOST_ENDPOINT"]


def redirect(value):
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "endpointUrl" and isinstance(member, str) and ":" in member:
                value[name] = ENDPOINT
            else:
                redirect(member)
    elif isinstance(value, list):
        for member in value:
            redirect(member)


@schemathesis.hook
def before_call(context, case, kwargs):
    redirect(case.body)
