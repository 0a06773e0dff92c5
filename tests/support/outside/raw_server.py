"""A server on loopback that answers each request with whatever bytes a test wants."""

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator

Answer = Callable[[bytes], Iterable[bytes]]


class RawServer(socketserver.ThreadingTCPServer):
    """Answers one request for each connection."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: RawServer

    def handle(self) -> None:
        """Read a request, and send the answer's pieces until the client has enough."""
        head, length = b"", 0
        while (line := self.rfile.readline()).strip():
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        request = head + b"\r\n" + self.rfile.read(length)
        self.server.requests.append(request)
        with contextlib.suppress(OSError):
            for piece in self.server.answer(request):
                self.wfile.write(piece)


def answering(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.contextmanager
def raw_server(answer: Answer) -> Iterator[RawServer]:
    with RawServer(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
