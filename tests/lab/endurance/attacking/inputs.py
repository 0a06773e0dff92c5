"""What files, hubs and tool servers send to harm the program: each opened as the product does.

Small inputs that unpack or unfold to very much. ``tests.lab.endurance.attack_files`` carries them
out beside a main thread that does nothing, and measures what that costs.
"""

import asyncio
import contextlib
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.files.json_fields import DamagedFile
from engine.library.downloads import download
from engine.library.hub import DownloadFailed, Hub, HubFailed
from engine.library.hub_models import search
from tests.app.mcp.served import Served, hostile
from tests.support import hub as hubs
from tests.support.outside.documents import pdf
from tests.support.outside.raw_server import raw_server
from ui.records.attachments import AttachmentRefused
from ui.records.documents import FileReader
from ui.records.exchange.export_reader import ExportReader

MOST_BYTES = 200_000_000
_MOST_IMPORT_BYTES = 128 << 20
_NAP_S = 0.002
_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_CELL = "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"


@dataclass(frozen=True)
class Harm:
    """What an input cost."""

    outcome: str
    peak_bytes: int
    helper_bytes: int
    gap_s: float
    left: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it. Gaps depend on the machine, and are judged by the reader."""
        found = [f"a process is left: {name}" for name in self.left]
        if max(self.peak_bytes, self.helper_bytes) > MOST_BYTES:
            found.append(f"it took more than {MOST_BYTES / 1e6:.0f} MB")
        return tuple(found)


def harm_of(attack: Callable[[Path], str], folder: Path) -> Harm:
    """Carry out an attack on another thread; raises what it raises."""
    own = psutil.Process()
    before, began = own.memory_info().rss, {one.pid for one in own.children(recursive=True)}
    outcomes: list[str | BaseException] = []

    def act() -> None:
        try:
            outcomes.append(attack(folder))
        except BaseException as error:
            outcomes.append(error)

    acting = threading.Thread(target=act)
    acting.start()
    peak, helper, gap_s, last_s, looks = 0, 0, 0.0, time.monotonic(), 0
    while acting.is_alive():
        time.sleep(_NAP_S)
        now_s = time.monotonic()
        gap_s, looks = max(gap_s, now_s - last_s - _NAP_S), looks + 1
        if looks % 10 == 0:
            peak = max(peak, own.memory_info().rss - before)
            for one in own.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    helper = max(helper, one.memory_info().rss)
        last_s = time.monotonic()
    if isinstance(outcome := outcomes[0], BaseException):
        raise outcome
    left = []
    for one in own.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if one.pid not in began and one.status() != psutil.STATUS_ZOMBIE:
                left.append(" ".join(one.cmdline())[-80:])
    return Harm(outcome, peak, helper, gap_s, tuple(left))


def _export(text: Callable[[], Iterable[str]]) -> Callable[[Path], str]:
    def act(folder: Path) -> str:
        path = folder / "export.zip"
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("conversations.json", "w") as file,
        ):
            for part in text():
                file.write(part.encode())
        reader = ExportReader(path, _MOST_IMPORT_BYTES)
        try:
            found = reader.contents()
            numbers = [one.number for one in found.listed]
            count = sum(1 for _ in reader.conversations(numbers, found.left_out))
            return f"{count} read, {len(found.damaged)} damaged"
        except (DamagedFile, OSError) as error:
            return f"refused: {error}"
        finally:
            reader.close()

    return act


def _values() -> Iterator[str]:
    yield '[{"mapping":['
    for _ in range(150):
        yield "[]," * 100_000
    yield "0]}]"


def _messages() -> Iterator[str]:
    yield '[{"conversation_id":"1","mapping":{'
    for number in range(160_000):
        message = '{"author":{"role":"user"},"content":{"parts":["x"]}}'
        yield f'"{number}":{{"parent":"{number - 1}","message":{message}}},'
    yield '"last":{}}}]'


def _conversations() -> Iterator[str]:
    message = '{"author":{"role":"user"},"content":{"parts":["x"]}}'
    for number in range(60_000):
        opening = "," if number else "["
        yield f'{opening}{{"id":"{number}","mapping":{{"a":{{"message":{message}}}}}}}'
    yield "]"


def _text() -> Iterator[str]:
    yield '[{"id":"1","mapping":{"a":{"message":{"author":{"role":"user"},"content":{"parts":["'
    for _ in range(15):
        yield "é" * (1 << 19)
    yield '"]}}}}}]'


def _word(body: Callable[[], Iterable[str]]) -> Callable[[Path], str]:
    def act(folder: Path) -> str:
        path = folder / "hostile.docx"
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("word/document.xml", "w") as file,
        ):
            file.write(f"<w:document {_WORD}><w:body>".encode())
            for part in body():
                file.write(part.encode())
            file.write(b"</w:body></w:document>")
        return _attached(path)

    return act


def _pdf(folder: Path) -> str:
    path = pdf(folder / "pages.pdf", ["x"] * 3_000)
    return _attached(path)


def _attached(path: Path) -> str:
    reader = FileReader(path)
    try:
        return f"{len(reader.read().text):,} characters"
    except AttachmentRefused as refused:
        return f"refused: {refused}"
    finally:
        reader.close()


def _endless_body(folder: Path) -> str:
    weights = b"x" * 1_000
    with hubs.hub() as site:
        site.files["a/b"] = {"model.safetensors": weights, "config.json": b"{}"}
        site.wrong = {"model.safetensors": bytes(300 << 20)}
        try:
            download(
                "a/b",
                folder,
                on_progress=lambda _: None,
                gives_up=threading.Event(),
                endpoint=site.url,
            )
        except DownloadFailed as error:
            written = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
            assert written < 1 << 20, f"{written:,} bytes were written"
            return f"refused: {error}"
    raise AssertionError("a body of another size was taken")


def _description(raw: Callable[[], bytes]) -> Callable[[Path], str]:
    def act(_: Path) -> str:
        body = raw()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
        with raw_server(lambda _: [head, body]) as server:
            try:
                return f"{len(search(Hub(server.url), '').models)} models"
            except HubFailed as error:
                return f"refused: {error}"

    return act


def _tool_server(how: str) -> Callable[[Path], str]:
    def act(folder: Path) -> str:
        with asyncio.Runner() as runner:
            served = Served(runner, folder)
            try:
                served.do(served.host.put(hostile(how)))
                served.do(served.host.ensure_ready([how]))
                with contextlib.suppress(AssertionError):
                    served.refusal(how, "go")
            finally:
                served.do(served.host.finish())
        return "ended"

    return act


INPUTS: dict[str, Callable[[Path], str]] = {
    "an export of 15 million values": _export(_values),
    "a conversation of 160,000 messages": _export(_messages),
    "an export of 60,000 conversations": _export(_conversations),
    "a message of 16 MB": _export(_text),
    "an export of brackets": _export(lambda: ("[" * (1 << 20) for _ in range(20))),
    "an export of white space": _export(lambda: (" " * (1 << 20) for _ in range(500))),
    "a document with a wide table": _word(lambda: ("<w:tbl><w:tr>", _CELL * 500_000)),
    "a document of paragraphs": _word(lambda: ("<w:p/>" * 10_000 for _ in range(300))),
    "a deep document": _word(lambda: ("<w:p>" * 100_000,)),
    "a document of one word": _word(lambda: ("<w:p><w:r><w:t>", *["x" * (1 << 20)] * 400)),
    "a PDF of 3,000 pages": _pdf,
    "an endless download": _endless_body,
    "a hub of 5 million lists": _description(lambda: b"[" + b"[]," * 5_000_000 + b"0]"),
    "a nested hub": _description(lambda: b"[" * 1_000_000),
    "a long hub": _description(lambda: b'["' + b"x" * (100 << 20)),
    "a tool server with an endless line": _tool_server("endless-line"),
}
