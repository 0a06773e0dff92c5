"""Exports of any size never hold up the main thread."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader

from app.store.conversation_store import SqliteConversationStore
from tests.ui.chat.session.conftest import COUNT, every
from tests.ui.driving import eventually
from ui.chat.session.workspace import Workspace
from ui.kit.markdown.pdf import pdf_of
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.exchange import exported_file
from ui.records.messages import ConversationMessage


@contextmanager
def watched_parts(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event | None = None
) -> Iterator[list[int]]:
    """Note the threads on which conversations are turned into text; at a gate the second waits."""
    threads: list[int] = []
    real = exported_file.archive_part

    def part(conversation: Conversation, *, is_first: bool) -> str:
        threads.append(threading.get_ident())
        if gate is not None and not is_first:
            gate.wait(30)
        return real(conversation, is_first=is_first)

    monkeypatch.setattr(exported_file, "archive_part", part)
    yield threads


async def test_a_cancelled_export_leaves_the_file_that_was_there(
    workspace: Workspace,
    store: SqliteConversationStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "all.json").write_text("before")
    files, outcomes = workspace.files, []
    files.transfers.ended.connect(lambda ended: outcomes.extend(filter(None, [ended.outcome])))
    gate = threading.Event()
    with watched_parts(monkeypatch, gate) as threads:
        files.export_all_to(folder / "all.json")
        await eventually(lambda: len(threads) == 2)
        files.transfers.cancel()
        gate.set()
        await files.finish()
        assert len(threads) == 2
    assert [path.name for path in folder.iterdir()] == ["all.json"]
    assert (folder / "all.json").read_text() == "before"
    assert outcomes == []
    assert files.transfers.now is None


async def test_an_export_that_cannot_be_written_says_why(
    workspace: Workspace, store: SqliteConversationStore, tmp_path: Path
) -> None:
    files, refused = workspace.files, []
    files.refused.connect(refused.append)
    files.export_all_to(tmp_path / "no folder" / "all.json")
    await files.finish()
    assert refused == ["“all.json” could not be written: there is no such file or folder."]


async def test_an_export_has_what_can_be_read_and_names_the_rest(
    workspace: Workspace,
    store: SqliteConversationStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "all.json"
    files, refused = workspace.files, []
    files.refused.connect(refused.append)
    unread = [one for one in every(workspace) if not one.is_loaded]
    lost, real = unread[:5], store.read

    async def read(conversation: Conversation) -> list[ConversationMessage] | None:
        return None if conversation in lost else await real(conversation)

    monkeypatch.setattr(store, "read", read)
    files.export_all_to(path)
    await files.finish()
    assert len(json.loads(path.read_text())["conversations"]) == COUNT - 5
    names = ", ".join(f"“{one.title}”" for one in lost[:3])
    assert refused == [
        f"{names} and 2 more conversations could not be read. “all.json” has the others."
    ]
    files.export_to(tmp_path / "one.json", lost[0])
    await files.finish()
    assert refused[1:] == [f"“{lost[0].title}” could not be read. Nothing was written."]
    assert not (tmp_path / "one.json").exists()


async def test_conversations_are_exported_as_pages_of_a_pdf_file(
    workspace: Workspace, tmp_path: Path
) -> None:
    question = ConversationMessage("user", "Is `a < b` **true**? 漢字")
    path = tmp_path / "talk.pdf"
    workspace.files.export_to(path, Conversation("A talk", [question]), Conversation("Another"))
    await workspace.files.finish()
    pages = PdfReader(path).pages
    text = " ".join(" ".join(page.extract_text() for page in pages).split())
    assert "A talk" in text
    assert "Is a < b true" in text
    assert "Another" in text


def test_pdf_wraps_code_and_draws_formulas(theme: Theme) -> None:
    long = "total = 1  # " + "as long as a line of code can be " * 5 + "END"
    table = "| kind | reason |\n| --- | ---: |\n| a | b |"
    text = f"A $\\frac{{1}}{{n}}$ for $5\n\n```python\n{long}\n```\n\n{table}\n"
    (page,) = PdfReader(BytesIO(pdf_of(text))).pages
    lines = page.extract_text().splitlines()
    assert not any("total" in line and "END" in line for line in lines), "it would be cut"
    assert any("END" in line for line in lines)
    assert not any("frac" in line for line in lines)
    assert any("$5" in line for line in lines), "an amount is no formula"
    assert len(page.images) == 1


@pytest.mark.parametrize(
    "text",
    ["[^<b>]: kept", "<div>kept</div>", "<details>\n<summary>kept</summary>\n\na\n</details>",
     "\\[\\frac{kept\\](1)",
     "- [x] kept", "[a]: kept", "&amp;kept;", "> ```\n> kept", "    kept"],
)  # fmt: skip
def test_pdf_loses_no_text(theme: Theme, text: str) -> None:
    (page,) = PdfReader(BytesIO(pdf_of(text))).pages
    assert "kept" in page.extract_text()
