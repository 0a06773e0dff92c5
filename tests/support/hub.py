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
from urllib.parse import parse_qs, urlencode, urlsplit

COMMIT = "c0ffee" + "0" * 34
_LARGE = ".safetensors"

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "quantization": {"bits": 4},
}
"""A model's configuration."""


@dataclass
class Hub:
    """The content and the behaviour of the hub.

    Attributes:
        url: Its address.
        files: Repository to file name to content.
        gated: Repositories whose terms have to be accepted.
        breaks_after: File name to the bytes after which its first transfers break off.
        breaks: How often they do.
        resumes: Whether a transfer can begin in the middle of a file.
        wrong: File name to content that is sent instead of the stated one.
        piece_s: Seconds between 64 KiB of a transfer.
        status: Another status for every answer.
        commit: The commit of ``main``.
        digest: Another digest of every file than its own.
        elsewhere: The address to which requests for files are redirected.
        tokens: The Authorization header of each request for a file, and the host that it named.
        requests: Method, path and Range header of each request.
        facts: Repository to the API's facts about it, beside the names of its files.
        most_listed: How many models a page of a list has at most.
        lists: The queries of the requested lists.
        answers: Every answer waits until this is set.
        holds_after: File name to the bytes after which its transfers stand still to the end.
        ends: Set when the hub ends.
        raw: Sent instead of every list and description.
    """

    url: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    breaks_after: dict[str, int] = field(default_factory=dict)
    breaks: int = 1
    resumes: bool = True
    wrong: dict[str, bytes] = field(default_factory=dict)
    piece_s: float = 0.0
    status: int = 200
    commit: str = COMMIT
    digest: str = ""
    elsewhere: str = ""
    tokens: list[tuple[str, str | None]] = field(default_factory=list)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    most_listed: int = 1000
    lists: list[dict[str, list[str]]] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    holds_after: dict[str, int] = field(default_factory=dict)
    ends: threading.Event = field(default_factory=threading.Event)
    raw: bytes | None = None

    def __post_init__(self) -> None:
        self.answers.set()

    def add_model(self, repository: str, config: dict[str, Any], /, **facts: Any) -> None:
        """HubResult a model with only its configuration and the API's facts."""
        self.files[repository] = {"config.json": json.dumps(config).encode()}
        self.facts[repository] = {"tags": ["mlx"], "pipeline_tag": "text-generation", **facts}

    def add_folder(self, repository: str, folder: Path) -> None:
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
        state.answers.set()
        state.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes; the second would wait 40 ms for the acknowledgement.
    disable_nagle_algorithm = True
    held: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        hub = self.held
        path = self.path.split("?")[0]
        hub.requests.append((self.command, path, self.headers.get("Range")))
        hub.answers.wait()
        if hub.status != 200:
            self._send(hub.status, {}, b"{}")
        elif path == "/api/models":
            self._list(parse_qs(urlsplit(self.path).query))
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/.+)?", path):
            self._listing(found[1])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self._file(found[1], found[2])
        else:
            self._send(404, {}, b"{}")

    def _list(self, query: dict[str, list[str]]) -> None:
        """Answer ``GET /api/models``: https://huggingface.co/docs/hub/api#get-apimodels."""
        hub = self.held
        hub.lists.append(query)
        text = query.get("search", [""])[0].casefold()
        wanted = {tag for one in query.get("filter", []) for tag in one.split(",")}
        found = [
            self._entry(name)
            for name in hub.files
            if text in name.casefold() and wanted <= set(self._entry(name)["tags"])
        ]
        if query.get("sort") == ["downloads"]:
            found.sort(key=lambda one: -one["downloads"])
        begin = int(query.get("cursor", ["0"])[0])
        end = begin + min(int(query.get("limit", ["1000"])[0]), hub.most_listed)
        headers = {"Content-Type": "application/json"}
        if end < len(found):
            following = urlencode({**query, "cursor": [str(end)]}, doseq=True)
            headers["Link"] = f'<{hub.url}/api/models?{following}>; rel="next"'
        body = json.dumps(found[begin:end]).encode() if hub.raw is None else hub.raw
        self._send(200, headers, body)

    def _entry(self, repository: str) -> dict[str, Any]:
        hub = self.held
        entry = {"id": repository, "modelId": repository, "sha": hub.commit, "private": False}
        entry |= {"gated": "manual" if repository in hub.gated else False, "tags": []}
        return entry | {"downloads": 0, "likes": 0} | hub.facts.get(repository, {})

    def _listing(self, repository: str) -> None:
        # The hub describes a gated model to everybody; it refuses only the files.
        if repository not in self.held.files:
            self._is_refused(repository)
            return
        siblings = []
        for name, content in self.held.files[repository].items():
            one: dict[str, Any] = {
                "rfilename": name,
                "size": len(content),
                "blobId": hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest(),
            }
            if self.held.digest:
                one["blobId"] = self.held.digest
            elif name.endswith(_LARGE):
                digest = hashlib.sha256(content).hexdigest()
                one["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            siblings.append(one)
        body = json.dumps({**self._entry(repository), "siblings": siblings}).encode()
        body = body if self.held.raw is None else self.held.raw
        self._send(200, {"Content-Type": "application/json"}, body)

    def _file(self, repository: str, name: str) -> None:
        if self._is_refused(repository):
            return
        stated = self.held.files[repository].get(name)
        if stated is None:
            self._send(404, {"X-Error-Code": "EntryNotFound"}, b"")
            return
        host, elsewhere = self.headers["Host"], self.held.elsewhere
        self.held.tokens.append((host, self.headers.get("Authorization")))
        if elsewhere and not elsewhere.endswith(host):
            self._send(302, {"Location": elsewhere + self.path}, b"")
            return
        content = self.held.wrong.get(name, stated)
        begin = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted and self.held.resumes:
            begin = int(wanted[1])
        headers = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self._send(206 if begin else 200, headers, content[begin:], name)

    def _is_refused(self, repository: str) -> bool:
        if repository in self.held.gated:
            self._send(403, {"X-Error-Code": "GatedRepo"}, b"{}")
        elif repository not in self.held.files:
            self._send(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
        else:
            return False
        return True

    def _send(self, status: int, headers: dict[str, str], body: bytes, name: str = "") -> None:
        hub = self.held
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        limit = hub.breaks_after.get(name)
        for at in range(0, len(body), 1 << 16):
            if name in hub.holds_after and at >= hub.holds_after[name]:
                hub.ends.wait()
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
