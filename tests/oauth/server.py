"""An OAuth 2.0 server by Authlib, and a webhook that it protects: tests/tests/oauth.rs starts it.

It takes a free port of this machine alone and writes its number to standard output. It ends when its
standard input does, and so with the tests, however they end.
"""

import os
import sys
import threading
import time

# The tests speak plain http on loopback.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, jsonify
from werkzeug.serving import make_server

# Seconds that tokens live.
LIFE = 4

TOKENS = {}


class Client(ClientMixin):
    """A client of that id, whose secret must come in one way."""

    def __init__(self, client_id, method, secret):
        self.client_id, self.method, self.secret = client_id, method, secret

    def get_client_id(self):
        return self.client_id

    def get_allowed_scope(self, scope):
        return " ".join(one for one in (scope or "").split() if one == "events")

    def check_client_secret(self, client_secret):
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method == self.method

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"


CLIENTS = {
    one.client_id: one
    for one in (
        Client("posts", "client_secret_post", "s3cret & more"),
        # Authlib does not decode what RFC 6749 has clients encode.
        Client("basic", "client_secret_basic", "s3cret-and-more"),
    )
}


class Token(TokenMixin):
    def __init__(self, scope, expires_in):
        self.scope, self.ends_at, self.revoked = scope, time.time() + expires_in, False

    def get_scope(self):
        return self.scope

    def is_expired(self):
        return time.time() >= self.ends_at

    def is_revoked(self):
        return self.revoked


class ClientCredentials(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]


class Validator(BearerTokenValidator):
    def authenticate_token(self, token_string):
        return TOKENS.get(token_string)


def save(token, request):
    TOKENS[token["access_token"]] = Token(token.get("scope", ""), token["expires_in"])


app = Flask(__name__)
app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"client_credentials": LIFE}
server = AuthorizationServer(app, query_client=CLIENTS.get, save_token=save)
server.register_grant(ClientCredentials)
protected = ResourceProtector()
protected.register_token_validator(Validator())


@app.post("/token")
def issue():
    return server.create_token_response()


@app.post("/hook")
@protected("events")
def hook():
    return "", 200


@app.post("/revoke")
def revoke():
    """Revokes all tokens, which the tests ask for."""
    for token in TOKENS.values():
        token.revoked = True
    return "", 200


@app.get("/issued")
def issued():
    return jsonify(len(TOKENS))


def end_with_input():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    print(listening.port, flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    listening.serve_forever()
