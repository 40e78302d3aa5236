"""moto's server for the ports' contract: tests/tests/moto.rs starts it.

It takes a free port of this machine alone and writes its number to standard output. It ends when its
standard input does, and so with the tests, however they end.
"""

import hashlib
import os
import sys
import threading

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sts.models import sts_backends
from werkzeug.serving import make_server

MOTO = DomainDispatcherApplication(create_backend_app)
CALL = threading.Lock()


def secret_of(key):
    """The secret of an access key: the tests' own, or that of a role that was assumed."""
    if key == "key":
        return "secret"
    backends = (backend for regions in list(sts_backends.values()) for backend in list(regions.values()))
    roles = (backend.get_assumed_role_from_access_key(key) for backend in backends)
    return next((role.secret_access_key for role in roles if role), None)


def wrong_with(environ, body):
    """What is wrong with a request's signature, by botocore's own."""
    given = dict(part.split("=", 1) for part in environ["HTTP_AUTHORIZATION"].split(" ", 1)[1].split(", "))
    key, _, region, service, _ = given["Credential"].split("/")
    secret = secret_of(key)
    if secret is None:
        return f"the key {key} is unknown"
    names = {"content-type": "CONTENT_TYPE"}
    headers = {
        name: environ[names.get(name, "HTTP_" + name.upper().replace("-", "_"))]
        for name in given["SignedHeaders"].split(";")
    }
    if headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
        return "another body's hash"
    url = f"http://{environ['HTTP_HOST']}{environ['RAW_URI']}"
    request = AWSRequest(method=environ["REQUEST_METHOD"], url=url, data=body, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(key, secret), service, region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    if auth.signature(text, request) != given["Signature"]:
        return "another signature than that of: " + auth.canonical_request(request)
    return None


def signed(environ, start_response):
    """An endpoint that takes signed requests alone."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        wrong = wrong_with(environ, body)
    except (IndexError, KeyError, ValueError) as error:
        wrong = repr(error)
    start_response("403 Forbidden" if wrong else "200 OK", [("Content-Type", "text/plain")])
    return [(wrong or "").encode()]


def one_at_a_time(environ, start_response):
    """Answers one call after the other: moto reads and writes an item in two steps, between which another
    call would break its condition. A receive may wait for a message, and holds up nothing."""
    if environ["PATH_INFO"].startswith("/signed/"):
        return signed(environ, start_response)
    if environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage":
        return MOTO(environ, start_response)
    with CALL:
        return MOTO(environ, start_response)


def end_with_input():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    print(server.port, flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    server.serve_forever()
