"""An OAuth 2.0 server by Authlib, and a webhook that it protects: tests/tests/oauth.rs starts it.

It takes a free port of this machine alone and writes it to standard output, with private keys of its
clients: a line of JSON. It ends when its standard input does, and so with the tests, however they end.
"""

import json
import os
import sys
import threading
import time

# The tests speak plain http on loopback.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from flask import Flask, jsonify
from werkzeug.serving import make_server

# Seconds that tokens live.
LIFE = 4

TOKENS = {}

# By client: those that sign.
KEYS = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "elliptic": ec.generate_private_key(ec.SECP256R1()),
}

SIGNED = JWTBearerClientAssertion.CLIENT_AUTH_METHOD


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
        *(Client(name, SIGNED, None) for name in KEYS),
    )
}


class Signed(JWTBearerClientAssertion):
    """Assertions that a client has signed, each of them good once."""

    def __init__(self, token_url):
        super().__init__(token_url)
        self.used = set()

    def validate_jti(self, claims, jti):
        is_new = jti not in self.used
        self.used.add(jti)
        return is_new

    def resolve_client_public_key(self, client, headers):
        assert headers["kid"] == f"{client.client_id}-1"
        public = KEYS[client.client_id].public_key()
        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        return public.public_bytes(encoding, form)


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
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post", SIGNED]


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


def private_pem(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def end_with_input():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    server.register_client_auth_method(SIGNED, Signed(f"http://127.0.0.1:{listening.port}/token"))
    keys = {name: private_pem(key) for name, key in KEYS.items()}
    print(json.dumps({"port": listening.port, "keys": keys}), flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()
    listening.serve_forever()
