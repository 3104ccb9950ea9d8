# SPDX-License-Identifier: Apache-2.0
"""A small in-memory registry according to the OCI distribution specification 1.1, with features that docker-registry
2.8 lacks: the referrers API, and uploads that survive a cut request.

usage: registry.py PORT [no-referrers] [chunk-min=N]
"""
import hashlib
import http.server
import json
import re
import sys
import urllib.parse
import uuid

PORT = int(sys.argv[1])
OPTIONS = dict((word.split("=") + ["1"])[:2] for word in sys.argv[2:])
INDEX = "application/vnd.oci.image.index.v1+json"
blobs, manifests, types, uploads = {}, {}, {}, {}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, headers=None, data=b""):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def error(self, status, code):
        self.answer(status, {}, json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode())

    def body(self, keep=None):
        left, data = int(self.headers.get("Content-Length", 0)), bytearray()
        while left:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                break
            left -= len(piece)
            (data if keep is None else keep).extend(piece)
        return bytes(data)

    def blob(self, data):
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not match:
            return self.answer(200, {"Docker-Content-Digest": digest_of(data)}, data)
        first, last = int(match[1]), min(int(match[2]), len(data) - 1)
        self.answer(206, {"Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1])

    def upload(self, name, key):
        data = uploads.get(key)
        if data is None:
            return self.error(404, "BLOB_UPLOAD_UNKNOWN")
        headers = {"Location": f"/v2/{name}/blobs/uploads/{key}"}
        if self.command == "PATCH":
            first = int(self.headers.get("Content-Range", "0-").split("-")[0])
            if first != len(data):
                self.body()
                return self.error(416, "BLOB_UPLOAD_INVALID")
            self.body(data)
        if self.command == "PUT":
            self.body(data)
            wanted = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["digest"][0]
            if digest_of(data) != wanted:
                del uploads[key]
                return self.error(400, "DIGEST_INVALID")
            blobs[name, wanted] = bytes(uploads.pop(key))
            return self.answer(201, {"Location": f"/v2/{name}/blobs/{wanted}"})
        headers["Range"] = f"0-{max(len(data) - 1, 0)}"
        self.answer(204 if self.command == "GET" else 202, headers)

    def manifest(self, name, tag):
        if self.command == "PUT":
            data = self.body()
            digest = digest_of(data)
            manifests[name, digest] = manifests[name, tag] = data
            types[name, digest] = types[name, tag] = self.headers["Content-Type"]
            headers = {"Location": self.path, "Docker-Content-Digest": digest}
            subject = json.loads(data).get("subject")
            if subject and "no-referrers" not in OPTIONS:
                headers["OCI-Subject"] = subject["digest"]
            return self.answer(201, headers)
        data = manifests.get((name, tag))
        if data is None:
            return self.error(404, "MANIFEST_UNKNOWN")
        self.answer(200, {"Content-Type": types[name, tag]}, data)

    def referrers(self, name, digest):
        found = []
        for (owner, key), data in manifests.items():
            content = json.loads(data)
            if owner == name and key == digest_of(data) and content.get("subject", {}).get("digest") == digest:
                found.append({"mediaType": types[owner, key], "digest": key, "size": len(data),
                              "artifactType": content.get("artifactType"), "annotations": content.get("annotations")})
        # Pages with one descriptor each.
        page = int(urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("page", ["0"])[0])
        headers = {"Content-Type": INDEX}
        if page + 1 < len(found):
            headers["Link"] = f'</v2/{name}/referrers/{digest}?page={page + 1}>; rel="next"'
        data = {"schemaVersion": 2, "mediaType": INDEX, "manifests": found[page : page + 1]}
        self.answer(200, headers, json.dumps(data).encode())

    def handle_any(self):
        path = urllib.parse.urlparse(self.path).path
        match = re.fullmatch(r"/v2/(.+?)/(blobs/uploads|blobs|manifests|referrers)/([^/]*)", path)
        if not match:
            return self.error(404, "NAME_UNKNOWN")
        name, kind, rest = match.groups()
        try:
            if kind == "blobs/uploads" and self.command == "POST":
                key = uuid.uuid4().hex
                uploads[key] = bytearray()
                headers = {"Location": f"/v2/{name}/blobs/uploads/{key}"}
                if "chunk-min" in OPTIONS:
                    headers["OCI-Chunk-Min-Length"] = OPTIONS["chunk-min"]
                self.answer(202, headers)
            elif kind == "blobs/uploads":
                self.upload(name, rest)
            elif kind == "manifests":
                self.manifest(name, rest)
            elif kind == "referrers" and "no-referrers" not in OPTIONS:
                self.referrers(name, rest)
            elif kind == "blobs" and (name, rest) in blobs:
                self.blob(blobs[name, rest])
            else:
                self.error(404, "BLOB_UNKNOWN")
        except OSError:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


Server(("127.0.0.1", PORT), Handler).serve_forever()
