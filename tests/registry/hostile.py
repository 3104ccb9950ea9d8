# SPDX-License-Identifier: Apache-2.0
"""A hostile registry: the name of the repository selects its answer.
usage: hostile.py PORT"""
import hashlib
import http.server
import json
import sys

PORT = int(sys.argv[1])
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def dump(value):
    return json.dumps(value, separators=(",", ":")).encode()


def index_of(*manifests, form="1.0"):
    return dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": MANIFEST, "digest": digest, "size": size, "annotations": {"dev.tessera.target": name}}
        for digest, size, name in manifests],
        "annotations": {"dev.tessera.format": form, "dev.tessera.needs": "9.9.9"}})


def manifest_of(config, layers):
    def one(media_type, data, size=None):
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data) if size is None else size}

    return dump({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.tessera.bundle.v1",
                 "config": one("application/vnd.tessera.bundle.config.v1+json", config),
                 "layers": [one(*layer) for layer in layers],
                 "annotations": {"dev.tessera.format": "1.0", "dev.tessera.needs": "0.1.0",
                                 "dev.tessera.target": "cpu:x86-64-v3"}})


CONFIG, LAYER = b"{}", b"x" * 100000
LEAVES = b"".join(hashlib.sha256(LAYER[at : at + 16384]).digest() for at in range(0, len(LAYER), 16384))
TABLE = hashlib.sha256(LEAVES).digest()
ELF, CHUNKS = "application/vnd.tessera.elf.v1", "application/vnd.tessera.chunks.v1"
GOOD = manifest_of(CONFIG, [(ELF, LAYER), (CHUNKS, TABLE)])
HUGE = manifest_of(CONFIG, [(ELF, LAYER, 1 << 33), (CHUNKS, TABLE)])
LIES = manifest_of(CONFIG, [(ELF, LAYER), (CHUNKS, bytes(32))])
BLOBS = {digest_of(data): data for data in (CONFIG, LAYER, TABLE, bytes(32))}


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, headers, data=b"", length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)
        if length is not None and length > len(data):
            self.close_connection = True

    def endless(self, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

    def challenge(self, text):
        self.answer(401, [("WWW-Authenticate", text)])

    def index(self, case):
        good = (digest_of(GOOD), len(GOOD), "cpu:x86-64-v3")
        bodies = {
            "good": index_of(good), "no-json": b"<html>hello</html>", "empty": b"", "deep": b"[" * 40 + b"]" * 40,
            "twice": index_of(good).replace(b'"schemaVersion":2', b'"schemaVersion":2,"schemaVersion":2'),
            "later": index_of(good, form="2.0"), "nothing": index_of(), "image": b'{"schemaVersion":2}',
            "wrong-size": index_of((digest_of(GOOD), len(GOOD) + 1, "cpu:x86-64-v3")),
            "huge-manifest": index_of((digest_of(GOOD), 1 << 40, "cpu:x86-64-v3")),
            "bad-target": index_of((digest_of(GOOD), len(GOOD), "../../etc\n")),
            "huge-layer": index_of((digest_of(HUGE), len(HUGE), "cpu:x86-64-v3")),
            "lying-table": index_of((digest_of(LIES), len(LIES), "cpu:x86-64-v3")),
        }
        self.answer(200, [("Content-Type", INDEX)], bodies.get(case, bodies["good"]))

    def token(self, case):
        good = b'{"token":"abc"}'
        if case == "token-endless":
            return self.endless()
        if case == "token-long":
            return self.answer(200, [], b'{"token":"' + b"a" * 40000 + b'"}')
        bodies = {"token-megabytes": b'{"token":"' + b"a" * 5000000 + b'"}', "token-text": b"abc",
                  "token-header": b'{"token":"a\\r\\nX-Evil: b"}', "token-none": b"{}", "token-empty": b'{"token":""}'}
        self.answer(200, [], bodies.get(case, good))

    def respond(self):
        words = self.path.split("?")[0].split("/")
        if words[1] == "token":
            return self.token(words[2])
        case, kind, rest = words[2], words[3], words[4]
        if case.startswith("token-"):
            return self.challenge(f'Bearer realm="http://127.0.0.1:{PORT}/token/{case}",service="s"')
        cases = {
            "endless": lambda: self.endless(), "endless-error": lambda: self.endless(400),
            "announced": lambda: self.answer(200, [], b"{}", 1 << 40), "short": lambda: self.answer(200, [], b"{}", 99),
            "negotiate": lambda: self.challenge("Negotiate"), "digest-login": lambda: self.challenge('Digest realm="x"'),
            "no-challenge": lambda: self.answer(401, []), "no-realm": lambda: self.challenge("Bearer service=x"),
            "open-quote": lambda: self.challenge('Bearer realm="http://x'),
            "far-realm": lambda: self.challenge('Bearer realm="http://example.org/token"'),
            "file-realm": lambda: self.challenge('Bearer realm="file:///etc/passwd"'),
            "headers": lambda: self.answer(200, [(f"X-{at}", "y" * 1000) for at in range(90)]),
            "html-error": lambda: self.answer(418, [], b"<h1>\x1b[31mteapot\x00</h1>"),
            "json-error": lambda: self.answer(400, [], dump({"errors": [{"code": "A\nB", "message": "\x1b[2J" + "m" * 9999}]})),
            "circle": lambda: self.answer(307, [("Location", self.path)]),
            "silent": lambda: self.connection.shutdown(2),
            "garbage": lambda: self.wfile.write(b"\x00\x01\x02 no HTTP\r\n\r\n"),
        }
        if case in cases:
            return cases[case]()
        if kind == "referrers" and case == "bad-referrers":
            return self.answer(200, [], b'{"manifests": [1, {"artifactType": 2}, {"digest": "sha256:x"}]}')
        if kind == "referrers" and case == "endless-referrers":
            return self.answer(200, [("Link", f"<{self.path}>; rel=next")], b'{"manifests": []}')
        if kind == "manifests":
            if rest.startswith("sha256:"):
                known = {digest_of(data): data for data in (GOOD, HUGE, LIES)}
                if rest not in known:
                    return self.answer(404, [])
                return self.answer(200, [("Content-Type", MANIFEST)],
                                   known[rest] + b" " if case == "other-manifest" else known[rest])
            return self.index(case)
        data = BLOBS.get(rest)
        if data is None:
            return self.answer(404, [])
        if len(data) > 50000 and case == "endless-blob":
            return self.endless()
        if len(data) > 50000 and case == "other-range":
            return self.answer(206, [("Content-Range", "bytes 5-9/100")], data)
        if len(data) > 50000 and case == "longer-blob":
            return self.answer(200, [], data + b"y")
        if len(data) > 50000 and case == "other-blob":
            return self.answer(200, [], data[:-1] + b"y")
        if len(data) > 50000 and case == "shorter-blob":
            return self.answer(200, [], data[:-1])
        self.answer(200, [], data)

    def handle_any(self):
        try:
            self.respond()
        except OSError:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


Server(("127.0.0.1", PORT), Handler).serve_forever()
