"""Damages compressed files, files beside the database, and a hub's answers; opens them as the
product does.

Exports of other programs, traces, and the configuration of MCP servers.
"""

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app.mcp.configuration import ServersFile
from app.settings.keychain import ToolSecrets
from app.store import rows
from engine.files.json_fields import DamagedFile
from engine.library.downloads import _listing
from engine.library.hub import Hub, HubFailed
from engine.library.hub_models import look_up, search, with_needs
from engine.output.answer import DecodingSetting
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.recording.run_trace import RunTrace
from engine.recording.stored_trace import packed, unpacked
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest, Message
from tests.support.attacks.damage import flipped
from tests.support.attacks.file_attacks import Attack, storable
from tests.support.outside import exports
from ui.records.exchange.archive import conversation_markdown

A = TypeVar("A")
T = TypeVar("T")
_MAX_BYTES = 1 << 22
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _read_servers(path: Path) -> str:
    before = path.read_bytes()
    file = ServersFile(path.parent)
    servers = file.load()
    if not file.notice:
        path.with_name("before").write_bytes(before)
    assert file.notice.isprintable()
    file.save(servers)
    again = ServersFile(path.parent)
    assert [server.name for server in again.load()] == [server.name for server in servers]
    assert not again.notice
    # Of a file that names several servers those that can be used are read.
    return "read" if servers or not file.notice else "refused"


def _read_secrets(path: Path) -> str:
    before = path.read_bytes()
    secrets = ToolSecrets(path.parent)
    try:
        secrets.value("one", "env/KEY")
    except OSError:
        outcome = "refused"
    else:
        path.with_name("before").write_bytes(before)
        outcome = "read"
    # Whatever happened to the file, a person can enter the secrets again.
    secrets.save("two", "env/KEY", "new")
    assert secrets.value("two", "env/KEY") == "new"
    return outcome


def _read_trace(path: Path) -> str:
    try:
        trace = unpacked(path.read_bytes())
    except DamagedFile:
        return "refused"
    packed(trace)
    return "read"


def _read_export(path: Path) -> str:
    try:
        found = exports.read_whole(path, _MAX_BYTES)
    except (DamagedFile, OSError):
        return "refused"
    for one in found.conversations:
        conversation_markdown(one)
        for message in one.tree:
            storable(rows.message_row(one, message))
        storable(rows.conversation_row(one))
    return "read"


class _CannedHub(Hub):
    """Gives every question the part of one text that is for it, or all of it if it is no JSON."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("http://127.0.0.1:9")
        self._raw = raw

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        repository: str = "",
        max_bytes: int = 0,
    ) -> tuple[bytes, str]:
        kind = "config" if "resolve" in path else "list" if path == "/api/models" else "model"
        try:
            return json.dumps(json.loads(self._raw)[kind]).encode(), ""
        except (ValueError, TypeError, LookupError, RecursionError):
            return self._raw, ""

    def at_once(self, ask: Callable[[Hub, A], T], items: Iterable[A]) -> list[Future[T]]:
        outcomes = []
        for item in items:
            outcomes.append(Future[T]())
            try:
                outcomes[-1].set_result(ask(self, item))
            except HubFailed as failure:
                outcomes[-1].set_exception(failure)
        return outcomes


def _ask_hub(path: Path) -> str:
    hub = _CannedHub(path.read_bytes())
    outcome = "refused"
    asked: tuple[Callable[[], object], ...] = (
        lambda: with_needs(hub, search(hub, "demo")[0]),
        lambda: look_up(hub, "makers/demo"),
        lambda: _listing("makers/demo", hub),
    )
    for ask in asked:
        try:
            ask()
        except HubFailed:
            pass
        else:
            outcome = "read"
    return outcome


def _hub_answers() -> tuple[str, ...]:
    model = {
        "id": "makers/demo", "sha": "c0ffee0", "tags": ["mlx", "license:mit"], "downloads": 5,
        "lastModified": "2026-01-01T00:00:00Z", "gated": False, "pipeline_tag": "text-generation",
        "safetensors": {"parameters": {"BF16": 5, "U32": 7}},
        "siblings": [
            {"rfilename": "model.safetensors", "size": 9, "blobId": "a",
             "lfs": {"sha256": "b", "size": 9}},
            {"rfilename": "config.json", "size": 3, "blobId": "c"}],
    }  # fmt: skip
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "quantization": {"bits": 4, "group_size": 64},
    }  # fmt: skip
    return (
        json.dumps({"list": [model, {**model, "id": "a/b"}], "model": model, "config": config}),
    )


def _zipped(rng: random.Random, content: bytes, name: str = "conversations.json") -> bytes:
    """Return an archive with the content, sometimes damaged; or the content as it is."""
    if rng.random() < 0.3:
        return content
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice(_METHODS)) as archive:
        archive.writestr("chat.html", "x" * 50)
        archive.writestr(name, content)
    whole = file.getvalue()
    match rng.randrange(4):
        case 0:
            return whole
        case 1:
            # The list of files, which is read first, is at the end.
            at = max(0, len(whole) - rng.randrange(1, 300))
            return whole[:at] + flipped(rng, whole[at:], 3)
        case 2:
            at = whole.rfind(name.encode(), 0, whole.rfind(b"PK\1\2")) - 30
            head = flipped(rng, whole[at : at + 80], 3)
            return whole[:at] + head + whole[at + 80 :]
        case _:
            return flipped(rng, whole)


def _compressed(rng: random.Random, content: bytes) -> bytes:
    whole = zlib.compress(content)
    return flipped(rng, whole) if rng.random() < 0.2 else whole


def _exports() -> tuple[str, ...]:
    whole = ([exports.chatgpt()], [exports.claude()], exports.lm_studio())
    return tuple(map(json.dumps, whole))


def _servers() -> tuple[str, ...]:
    values = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "disabled": True},
            "web": {"url": "https://example.com/mcp", "headers": {"X-Key": "k"}},
        }
    }
    return (json.dumps(values),)


def _traces() -> tuple[str, ...]:
    family = Family(think_start="<think>", think_end="</think>", tags={3: "<think>"})
    setting = DecodingSetting(
        model="m", family=family, eos=(2,), context_budget=100, has_bytes=True
    )
    trace = RunTrace(setting, StopRules.of("END", token_ids=(9,)), 64)
    trace.request = GenerationRequest((Message("user", "Hello"),))
    trace.vocabulary = Vocabulary(
        raw=None,
        text=lambda token_id: "",
        special={2: "<eos>"},
        eos=frozenset({2}),
        strips_first_space=False,
        size=10,
    )
    return (zlib.decompress(packed(trace)).decode("ascii"),)


def _length_of_lies(rng: random.Random, content: bytes) -> bytes:
    """Return an archive that states wrong sizes."""
    whole = bytearray(_zipped(rng, content))
    at = whole.rfind(b"PK\1\2")
    if at >= 0:
        struct.pack_into(
            "<LL", whole, at + 20, rng.choice((0, 1, 1 << 31)), rng.choice((0, 1 << 31))
        )
    return bytes(whole)


def _packed_export(rng: random.Random, content: bytes) -> bytes:
    return (_length_of_lies if rng.random() < 0.1 else _zipped)(rng, content)


STORED: tuple[Attack, ...] = (
    Attack("tool-servers.json", _servers(), _read_servers),
    Attack("tool-secrets.json", ('{"tool-server/one/env/KEY": "s"}',), _read_secrets),
    Attack("trace", _traces(), _read_trace, _compressed),
    Attack("conversations.json", _exports(), _read_export, _packed_export),
    Attack("hub.json", _hub_answers(), _ask_hub),
)
