"""A server on this machine, for what is downloaded and what is sent."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Reply(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        self.server.answer(self)

    do_POST = do_GET

    def send(self, data, promised=None, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if promised is None else promised))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def serving(answer):
    """A server that calls `answer` with each reply that it has to send."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Reply) as server:
        server.answer, server.asked, server.daemon_threads = answer, 0, True
        server.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
