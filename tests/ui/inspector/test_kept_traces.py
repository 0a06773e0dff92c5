"""Traces on disk: whole after a restart, within their budget, gone when they are to be."""

import asyncio
import zlib
from dataclasses import replace
from pathlib import Path

from app.store.conversation_store import open_store
from app.store.traces import TraceFiles
from engine.engine import Engine
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import to_json
from engine.recording.stored_trace import packed, unpacked
from engine.values.request import (
    PICTURE_MARK,
    GenerationRequest,
    Message,
    Picture,
    TraceLevel,
)
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, confirm_deletion, eventually
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.inspecting import COUNT, ask
from tests.ui.inspector.reading import THINK, trace_of
from ui.inspector.prompt_tab import PromptTab
from ui.inspector.request_tabs import ApiTab
from ui.inspector.shown_run import alternatives
from ui.kit.theme import Theme
from ui.preferences import STORAGE
from ui.records.messages import runs_of
from ui.records.pictures import keep_picture
from ui.window.preferences_dialog import PreferencesDialog


def test_a_trace_is_the_same_after_it_was_packed(record: Record) -> None:
    shown_run = record(
        ["<think>", "hm", "</think>", "Grö", "ße", "E", "N", "x", "END", "y"],
        "END",
        level=TraceLevel.FULL,
        **THINK,
    )
    trace = trace_of(shown_run)
    again = unpacked(packed(trace))
    assert list(again.tokens) == [replace(token, settled=()) for token in trace.tokens]
    assert any(token.stats is not None for token in again.tokens)
    for name in ("setting", "rules", "max_tokens", "stop", "residue", "speculation", "calls",
                 "details"):  # fmt: skip
        assert getattr(again, name) == getattr(trace, name), name
    assert again.request == trace.request
    assert to_json(again) == to_json(trace)
    for before, after in zip(trace.tokens, again.tokens, strict=True):
        assert alternatives(after, again.vocabulary) == alternatives(before, trace.vocabulary)


def done(files: TraceFiles) -> int:
    """Wait until all that was asked for is done; returns the bytes that are kept."""
    return files.measured().result(60)


def kept(folder: Path) -> set[str]:
    return {path.name.split(".")[1] for path in folder.glob("*.trace")}


def test_the_oldest_traces_make_room_and_only_their_owner_can_read_them(
    record: Record, tmp_path: Path
) -> None:
    trace = trace_of(record(["a", "b", "c"]))
    one, folder = len(packed(trace)), tmp_path / "data" / "traces"
    files = TraceFiles(folder, one * 3)
    for number in range(5):
        files.save("c1", f"r{number}", trace)
    assert done(files) == one * 3
    assert kept(folder) == {"r2", "r3", "r4"}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    files.limit_to(one)
    assert done(files) == one
    assert kept(folder) == {"r4"}
    files.limit_to(0)
    assert done(files) == 0
    files.save("c1", "r9", trace)
    assert done(files) == 0
    files.close()


def test_traces_are_deleted_with_their_conversation(record: Record, tmp_path: Path) -> None:
    trace = trace_of(record(["a", "b", "c"]))
    files = TraceFiles(tmp_path, 1_000_000)
    for conversation, name in (("c1", "r1"), ("c2", "r2"), ("c2", "r3")):
        files.save(conversation, name, trace)
    done(files)
    (tmp_path / "c2.r2.trace").write_bytes(b"damaged")

    async def loaded(name: str) -> RunTrace | None:
        return await files.load(name)

    assert asyncio.run(loaded("r2")) is None
    found = asyncio.run(loaded("r3"))
    assert found is not None
    assert found.stop == trace.stop
    # Nothing is lost of what cannot be read now.
    assert (tmp_path / "c2.r2.trace").read_bytes() == b"damaged"
    (tmp_path / "c2.r2.trace").unlink()
    assert kept(tmp_path) == {"r1", "r3"}
    files.retain(frozenset({"c2"}))
    done(files)
    assert kept(tmp_path) == {"r3"}
    files.save("../c3", "r4", trace)
    files.forget_all().result(60)
    assert kept(tmp_path) == set()
    files.close()


def test_kept_trace_names_the_pictures_of_its_prompt(record: Record, tmp_path: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(100_000)
    picture = keep_picture(tmp_path / "pictures", "a.png", data)
    trace = trace_of(record(["a"]))
    turn = Message("user", f"{PICTURE_MARK}Look", pictures=(Picture(data),))
    trace.request = GenerationRequest((turn,))
    files = TraceFiles(tmp_path / "traces", 1_000_000, tmp_path / "pictures")
    files.save("c1", "r1", trace)
    stored = zlib.decompress(files.content("r1").result(60) or b"")
    assert b"00" * 1000 not in stored

    async def request() -> GenerationRequest | None:
        found = await files.load("r1")
        assert found is not None
        return found.request

    assert asyncio.run(request()) == trace.request
    (tmp_path / "pictures" / picture.kept_file).unlink()
    assert asyncio.run(request()) is None
    files.close()


def test_kept_trace_fills_every_tab_until_deleted(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    async def start(level: TraceLevel) -> None:
        store = await open_store(tmp_path / "conversations.db")
        traces = TraceFiles(tmp_path / "traces", 10_000_000)
        window = main_window(engine, theme, store=store, trace_store=traces)
        window.workspace.traces.level = level
        async with shown(window):
            window.others.show_inspector()
            inspector = window.others.inspector
            if level is TraceLevel.FULL:
                await ask(window, COUNT, "6")
            else:
                count = inspector.tokens.model.rowCount
                await eventually(lambda: count() > 0)
                assert inspector.tape.toPlainText().replace("\u200b", "").startswith("1⏎\n2⏎\n3⏎")
                assert inspector.legend.isVisible()
                inspector.tabs.setCurrentWidget(inspector.ending)
                assert inspector.ending.empty.title.text() == "Ending Was Never Likely"
                inspector.tabs.setCurrentWidget(inspector.tab(PromptTab))
                await eventually(lambda: COUNT in inspector.tab(PromptTab).page.toPlainText())
                api = inspector.tab(ApiTab)
                inspector.tabs.setCurrentWidget(api)
                assert not api.api.isVisible(), "nothing is offered before there is an answer"
                await eventually(lambda: "HTTP/1.1 200" in api.page.toPlainText())
                assert api.api.isVisible()
                window.others.show_preferences(STORAGE)
                dialog = window.findChild(PreferencesDialog)
                assert dialog is not None
                assert dialog.traces is not None
                await eventually(dialog.traces.forget.isEnabled)
                dialog.traces.forget.click()
                assert " kB" in await confirm_deletion(dialog)
                assert count() == 0
        await asyncio.to_thread(traces.close)
        await store.aclose()

    run(start(TraceLevel.FULL))
    assert len(kept(tmp_path / "traces")) == 1
    run(start(TraceLevel.STOPS))
    assert kept(tmp_path / "traces") == set()


async def test_a_deleted_message_takes_its_trace_from_disk_and_undo_brings_both_back(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    folder = tmp_path / "traces"
    traces = TraceFiles(folder, 10_000_000)
    window = main_window(engine, theme, trace_store=traces)
    async with shown(window):
        workspace, changes = window.workspace, window.chat.handling.changes
        await ask(window, COUNT, "6")
        undo = workspace.current.undo_stack.undo
        (answer,) = (one for one in workspace.current.conversation.messages if one.run)
        assert answer.run is not None
        before = done(traces)
        assert kept(folder) == {answer.run.id}
        for _ in range(2):
            changes.delete(answer)
            assert workspace.traces.get(answer.run.id) is None
            assert await workspace.traces.find(answer.run.id) is None
            assert kept(folder) == set()
            undo()
            assert await workspace.traces.find(answer.run.id) is not None
            assert done(traces) == before
            assert kept(folder) == {answer.run.id}
        changes.delete(answer)
        workspace.traces.forget_all()
        undo()
        assert done(traces) == 0
        assert await workspace.traces.find(answer.run.id) is None
    await asyncio.to_thread(traces.close)


async def test_copies_of_an_answer_have_traces_of_their_own(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    traces = TraceFiles(tmp_path, 10_000_000)
    window = main_window(engine, theme, trace_store=traces)
    async with shown(window):
        workspace, changes = window.workspace, window.chat.handling.changes
        await ask(window, "Count from 1 to 3", "6")
        await ask(window, COUNT)
        conversation = workspace.current.conversation
        first, last = runs_of(conversation.messages)
        changes.branch(conversation.messages[-1])
        branch = workspace.current.conversation
        assert branch is not conversation
        copied = runs_of(branch.messages)[-1]
        changes.delete(branch.messages[0])
        done(traces)
        assert kept(tmp_path) == {first.id, last.id}
        workspace.current.undo_stack.undo()
        done(traces)
        assert len(kept(tmp_path)) == 4
        workspace.open(conversation)
        changes.rewrite(conversation.messages[1], "another")
        (follower,) = runs_of(conversation.messages)[1:]
        old = next(one for one in conversation.tree if one.run is last)
        changes.delete(old)
        done(traces)
        assert kept(tmp_path) > {first.id, follower.id, copied.id}
        assert last.id not in kept(tmp_path)
        assert await workspace.traces.find(last.id) is None
        for one in (follower, copied):
            assert await workspace.traces.find(one.id) is not None
    await asyncio.to_thread(traces.close)
