# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a registry that misbehaves on purpose, and counts.

usage: proxy.py PORT UPSTREAM_PORT FOLDER

Rules are the lines of FOLDER/rules: `METHOD PATTERN TIMES ACTION [VALUE]`. The first unexhausted rule
whose METHOD (or `*`) and path PATTERN match a request applies to it:
  cut-request N     takes N bytes of the body, then closes the connection
  cut-response N    gives N bytes of the body, then closes the connection
  cut-after         passes the request on, and closes before the answer
  corrupt-request   changes a byte of the body; corrupt-response: of the answer
  stall N           gives N bytes of the body, then nothing
  throttle N        N bytes a second of the answer; throttle-request N: of the body
  status CODE[:S]   answers CODE, with Retry-After S
  redirect URL      answers 307 with URL; `{path}` in it is replaced by the path
  no-range          leaves the Range header out
Each request is a line of FOLDER/log: method, path, bytes of body received, whether it had a login.
"""
import http.client
import http.server
import os
import re
import sys
import threading
import time

PORT, UPSTREAM, FOLDER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
PIECE = 65536
lock = threading.Lock()
used = {}


def find_rule(method, path):
    try:
        with open(os.path.join(FOLDER, "rules")) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None, None
    with lock:
        for line in lines:
            words = line.split()
            if len(words) < 4 or words[0] not in ("*", method) or not re.search(words[1], path):
                continue
            if used.get(line, 0) < int(words[2]):
                used[line] = used.get(line, 0) + 1
                return words[3], words[4] if len(words) > 4 else None
    return None, None


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"
    taken = 0

    def log_message(self, *words):
        pass

    def note(self):
        login = "login" if "Authorization" in self.headers else "anonymous"
        with lock, open(os.path.join(FOLDER, "log"), "a") as file:
            file.write(f"{self.command} {self.path.split('?')[0]} {self.taken} {login}\n")

    def body(self, limit=None):
        left = int(self.headers.get("Content-Length", 0))
        while left and (limit is None or self.taken < limit):
            size = min(left, PIECE, PIECE if limit is None else limit - self.taken)
            piece = self.rfile.read(size)
            if not piece:
                return
            left -= len(piece)
            self.taken += len(piece)
            yield piece

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(2)

    def plain(self, status, headers):
        for _ in self.body():
            pass
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def pass_on(self, action, value):
        upstream = http.client.HTTPConnection("127.0.0.1", UPSTREAM)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, text in self.headers.items():
            if not (action == "no-range" and name.lower() == "range"):
                upstream.putheader(name, text)
        upstream.endheaders()
        limit = int(value) if action == "cut-request" else None
        try:
            for piece in self.body(limit):
                if action == "corrupt-request":
                    piece = bytes([piece[0] ^ 1]) + piece[1:]
                    action = None
                if action == "throttle-request":
                    time.sleep(len(piece) / int(value))
                upstream.send(piece)
        except OSError:
            return self.cut()
        if action == "cut-request":
            upstream.close()
            time.sleep(0.2)  # the registry processes the received bytes before their number is requested
            return self.cut()
        answer = upstream.getresponse()
        if action == "cut-after":
            answer.read()
            upstream.close()
            return self.cut()
        self.send_response_only(answer.status)
        for name, text in answer.getheaders():
            self.send_header(name, text)
        self.end_headers()
        self.give(answer, action, value)
        upstream.close()

    def give(self, answer, action, value):
        given = 0
        while True:
            size = PIECE
            if action == "throttle":
                size = max(1, int(value) // 10)
                time.sleep(0.1)
            if action == "cut-response":
                size = min(size, int(value) - given)
                if size == 0:
                    return self.cut()
            if action == "stall" and given >= int(value):
                time.sleep(60)
            piece = answer.read(size) if self.command != "HEAD" else b""
            if not piece:
                return
            if action == "corrupt-response":
                piece = piece[:-1] + bytes([piece[-1] ^ 1])
                action = None
            given += len(piece)
            self.wfile.write(piece)

    def handle_any(self):
        self.taken = 0
        action, value = find_rule(self.command, self.path)
        try:
            if action == "status":
                code, _, after = value.partition(":")
                self.plain(int(code), {"Retry-After": after} if after else {})
            elif action == "redirect":
                self.plain(307, {"Location": value.replace("{path}", self.path)})
            else:
                self.pass_on(action, value)
        except OSError:
            self.close_connection = True
        finally:
            self.note()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


Server(("127.0.0.1", PORT), Handler).serve_forever()
