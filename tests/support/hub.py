"""A small Hugging Face hub on this machine: repositories of files, and ways to fail."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c0ffee" + "0" * 34
_LARGE = ".safetensors"


@dataclass
class Hub:
    """What the hub holds and how it behaves.

    Attributes:
        url: Its address.
        files: Repository to file name to content.
        gated: Repositories whose terms have to be accepted.
        breaks_after: File name to the bytes after which its first transfers break off.
        breaks: How often they do.
        wrong: File name to content that is sent in place of what is stated.
        piece_s: Seconds between 64 KiB of a transfer.
        status: Another status for every answer.
        commit: What ``main`` is at.
        tag: Another tag for every file than its digest.
        requests: Method, path and Range header of what was asked.
    """

    url: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    breaks_after: dict[str, int] = field(default_factory=dict)
    breaks: int = 1
    wrong: dict[str, bytes] = field(default_factory=dict)
    piece_s: float = 0.0
    status: int = 200
    commit: str = COMMIT
    tag: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)

    def add_folder(self, repository: str, folder: Path) -> None:
        """Offer the files of a folder."""
        self.files[repository] = {
            path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
        }


@contextmanager
def hub() -> Iterator[Hub]:
    """Serve a hub until the block ends."""
    state = Hub()

    class Handler(_Handler):
        held = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    held: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, *, has_body: bool) -> None:
        hub = self.held
        path = self.path.split("?")[0]
        hub.requests.append((self.command, path, self.headers.get("Range")))
        if hub.status != 200:
            self._send(hub.status, {}, b"{}")
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/.+)?", path):
            self._listing(found[1])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self._file(found[1], found[2], has_body=has_body)
        else:
            self._send(404, {}, b"{}")

    def _listing(self, repository: str) -> None:
        if self._is_refused(repository):
            return
        siblings = []
        for name, content in self.held.files[repository].items():
            one: dict[str, Any] = {
                "rfilename": name,
                "size": len(content),
                "blobId": hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest(),
            }
            if name.endswith(_LARGE):
                digest = hashlib.sha256(content).hexdigest()
                one["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            siblings.append(one)
        body = {
            "id": repository,
            "modelId": repository,
            "sha": self.held.commit,
            "siblings": siblings,
        }
        body |= {"private": False, "gated": False, "tags": [], "downloads": 0, "likes": 0}
        self._send(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _file(self, repository: str, name: str, *, has_body: bool) -> None:
        if self._is_refused(repository):
            return
        stated = self.held.files[repository].get(name)
        if stated is None:
            self._send(404, {"X-Error-Code": "EntryNotFound"}, b"")
            return
        content = self.held.wrong.get(name, stated)
        if name.endswith(_LARGE):
            tag = hashlib.sha256(stated).hexdigest()
        else:
            tag = hashlib.sha1(f"blob {len(stated)}\0".encode() + stated).hexdigest()
        begin = 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            begin = int(wanted[1])
        headers = {
            "ETag": f'"{self.held.tag or tag}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self._send(206 if begin else 200, headers, content[begin:], name, has_body=has_body)

    def _is_refused(self, repository: str) -> bool:
        if repository in self.held.gated:
            self._send(403, {"X-Error-Code": "GatedRepo"}, b"{}")
        elif repository not in self.held.files:
            self._send(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
        else:
            return False
        return True

    def _send(
        self,
        status: int,
        headers: dict[str, str],
        body: bytes,
        name: str = "",
        *,
        has_body: bool = True,
    ) -> None:
        hub = self.held
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not has_body or self.command == "HEAD":
            return
        limit = hub.breaks_after.get(name)
        for at in range(0, len(body), 1 << 16):
            if limit is not None and at >= limit and hub.breaks > 0:
                hub.breaks -= 1
                self.close_connection = True
                self.connection.close()
                return
            try:
                self.wfile.write(body[at : at + (1 << 16)])
            except OSError:
                return
            time.sleep(hub.piece_s)
