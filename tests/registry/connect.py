# SPDX-License-Identifier: Apache-2.0
"""A plain HTTP proxy, as in an office: GET and HEAD of absolute URLs, CONNECT. It prints its requests, and refuses a
CONNECT that sends a login. Names in .test are this machine. usage: connect.py PORT"""
import http.client
import http.server
import socket
import sys
import threading
import urllib.parse


telling = threading.Lock()


def tell(*words):
    """Prints a whole line: several connections are served concurrently."""
    with telling:
        print(*words, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.0"

    def log_message(self, *words):
        pass

    def do_GET(self):
        tell(self.command, self.path)
        url = urllib.parse.urlparse(self.path)
        upstream = http.client.HTTPConnection(url.hostname, url.port)
        upstream.request(self.command, url.path + ("?" + url.query if url.query else ""), headers=dict(self.headers))
        answer = upstream.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        while piece := answer.read(65536):
            self.wfile.write(piece)

    do_HEAD = do_GET

    def do_CONNECT(self):
        if "Proxy-Authorization" in self.headers:
            tell(self.command, self.path, "refused")
            self.send_response_only(403)
            return self.end_headers()
        tell(self.command, self.path)
        host, _, port = self.path.rpartition(":")
        upstream = socket.create_connection(("127.0.0.1" if host.endswith(".test") else host, int(port)))
        self.send_response_only(200)
        self.end_headers()

        def copy(source, sink):
            try:
                while piece := source.recv(65536):
                    sink.sendall(piece)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        back = threading.Thread(target=copy, args=(upstream, self.connection), daemon=True)
        back.start()
        copy(self.connection, upstream)
        back.join()


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
