# SPDX-License-Identifier: Apache-2.0
"""A token server for docker-registry, according to its "Token Authentication Specification": it requires a
user and a password, and signs the requested scope (JWT, RS256, by the openssl program).

usage: issuer.py PORT KEY CERTIFICATE_DER LOG [LIFETIME_SECONDS]
"""
import base64
import http.server
import json
import subprocess
import sys
import time
import urllib.parse

PORT, KEY, CERTIFICATE, LOG = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
LIFETIME = int(sys.argv[5]) if len(sys.argv) > 5 else 300
LOGIN = "Basic " + base64.b64encode("user:päss:word".encode()).decode()


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(service, scopes):
    now = int(time.time())
    access = []
    for scope in scopes:
        rest, actions = scope.rsplit(":", 1)
        kind, name = rest.split(":", 1)
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    with open(CERTIFICATE, "rb") as file:
        chain = [base64.b64encode(file.read()).decode()]
    header = {"typ": "JWT", "alg": "RS256", "x5c": chain}
    claims = {"iss": "issuer", "sub": "user", "aud": service, "exp": now + LIFETIME, "nbf": now - 10,
              "iat": now, "jti": str(time.time_ns()), "access": access}
    signed = encode(json.dumps(header).encode()) + "." + encode(json.dumps(claims).encode())
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", KEY], input=signed.encode(),
                               capture_output=True, check=True).stdout
    return signed + "." + encode(signature)


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True

    def log_message(self, *words):
        pass

    def answer(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def give(self, query, good):
        with open(LOG, "a") as file:
            file.write(f"{self.command} {good} {query.get('service')} {query.get('scope')}\n")
        if not good:
            return self.answer(401, {"details": "no"})
        scopes = [one for text in query.get("scope", []) for one in text.split(" ")]
        self.answer(200, {"token": token(query["service"][0], scopes)})

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        self.give(query, self.headers.get("Authorization") == LOGIN)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        query = urllib.parse.parse_qs(body)
        good = query.get("grant_type") == ["refresh_token"] and query.get("refresh_token") == ["refresh me+&="]
        self.give(query, good)


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
