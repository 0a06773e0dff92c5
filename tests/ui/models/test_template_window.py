"""A chat template of the user's: edited in its window, used at once, kept, and undone."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from engine.library.local_models import Origin, look_into
from engine.values.request import GenerationRequest, Message
from tests.ui.driving import eventually
from tests.ui.models.opened import OpenedModels
from ui.models.model_choices import ChoicesState
from ui.models.template_window import TemplateWindow


async def opened_template(opened: OpenedModels) -> TemplateWindow:
    """Click the link beside the model."""
    opened.pick("demo-model").template.click()
    window = opened.window.others.template
    await eventually(lambda: window.panes.summary.text() == "The prompts are the same.")
    return window


def whose_template(opened: OpenedModels) -> str:
    return dict(opened.pick("demo-model").shown_facts).get("Chat Template", "")


async def prompt_of(opened: OpenedModels) -> str:
    request = GenerationRequest(messages=(Message("user", "Hi"),))
    return (await opened.engine.render_prompt(request)).text


def drop(target: QWidget, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    button, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    copy = Qt.DropAction.CopyAction
    # Qt sends a drop to the widget that took the drag.
    QApplication.sendEvent(target, QDragEnterEvent(QPoint(5, 5), copy, data, button, keys))
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), copy, data, button, keys))


def edit(window: TemplateWindow, old: str, new: str) -> None:
    field = window.editor.field
    assert old in field.text()
    field.setPlainText(field.text().replace(old, new))


async def test_template_is_used_at_once_kept_and_undone(opened: OpenedModels) -> None:
    opened.click("demo-model")
    await opened.loaded("demo-model")
    own = await prompt_of(opened)
    window = await opened_template(opened)
    assert (window.pill.word, window.use.isEnabled()) == ("The model’s own", False)
    edit(window, "<|im_end|>", "<|endoftext|>")
    await eventually(lambda: window.use.isEnabled())
    assert window.pill.word == "Not used yet"
    window.use.click()
    await eventually(lambda: opened.info is not None and opened.info.user_template)
    await eventually(lambda: opened.state.stage == "ready")
    assert await prompt_of(opened) == own.replace("<|im_end|>", "<|endoftext|>")
    assert {end.text: end.source for end in opened.info.eos}["<|endoftext|>"] == "template"
    await eventually(lambda: whose_template(opened) == "Yours")
    assert window.pill.word == "Yours"
    kept = ChoicesState(opened.window.preferences).template_of(opened.demo)
    assert kept == window.editor.field.text()
    window.use_own.click()
    await eventually(lambda: opened.info is not None and opened.info.user_template is None)
    # The text stays, so that nothing is lost.
    assert (window.pill.word, window.editor.field.text()) == ("Not used yet", kept)
    window.undo_bar.button.click()
    await eventually(lambda: opened.info is not None and opened.info.user_template == kept)
    assert window.pill.word == "Yours"


async def test_differences_are_marked_side_by_side_and_visited(opened: OpenedModels) -> None:
    window = await opened_template(opened)
    edit(window, "Reply with a tool call", "Answer with one tool call")
    await eventually(lambda: window.panes.summary.text() == "2 differences")
    panes = (window.panes.own, window.panes.users)
    marked = [[one.cursor.selectedText() for one in pane.extraSelections()] for pane in panes]
    assert marked == [["Reply", "a"], ["Answer", "one"]]
    assert panes[1].textCursor().position() == panes[1].text().index("Answer with")
    window.panes.next.click()
    window.panes.previous.click()
    assert window.panes.summary.text() == "Difference 2 of 2"
    assert window.panes.users.extraSelections()[-1].cursor.selectedText() == "one"
    edit(window, "one tool call", "a tool call now")
    await eventually(lambda: window.panes.summary.text() == "2 differences")
    window.panes.previous.click()
    assert window.panes.summary.text() == "Difference 2 of 2"


async def test_syntax_error_names_and_marks_its_line(opened: OpenedModels) -> None:
    window = await opened_template(opened)
    window.editor.field.setPlainText("{{ messages }}\n\n{% if %}")
    await eventually(lambda: window.editor.verdict.text().startswith("Line 3: Expected an expr"))
    [mark] = window.editor.field.extraSelections()
    assert mark.cursor.blockNumber() == 2
    assert not window.use.isEnabled()


async def test_text_is_used_once_it_was_checked(opened: OpenedModels) -> None:
    window = await opened_template(opened)
    for text, is_used in (("{{ messages", False), ("{{ messages }}", True)):
        window.editor.field.setPlainText(text)
        assert not window.use.isEnabled()
        QTest.keySequence(window.editor.field, QKeySequence.StandardKey.Save)
        await eventually(lambda: not window._is_comparing and not window._delay.isActive())
        choices = ChoicesState(opened.window.preferences)
        assert choices.template_of(opened.demo) == (text if is_used else None)


async def test_text_that_is_not_used_stays_when_the_window_is_closed(opened: OpenedModels) -> None:
    window = await opened_template(opened)
    edit(window, "Reply", "Answer")
    window.close()
    [choices] = opened.window.preferences.now.models.choices
    assert "Answer with a tool call" in choices.template_draft
    assert choices.template == ""
    window.show_model(look_into(opened.demo, Origin.BUNDLED))
    assert "Answer with a tool call" in window.editor.field.text()


async def test_model_without_a_template_is_given_one(
    opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    bare = tmp_path / "mine" / "bare"
    shutil.copytree(demo_model_path, bare, ignore=shutil.ignore_patterns("*.jinja", "training"))
    opened.window.model_library.add_folder(bare.parent)
    await eventually(lambda: opened.has("bare"))
    opened.click("bare")
    await opened.loaded("bare")
    window = opened.window.others.template
    window.show_model(look_into(bare, Origin.FOLDER))
    await eventually(lambda: "no chat template" in window.panes.own.text())
    assert (window.pill.word, window.editor.verdict.text()) == ("None", "")
    assert not window.use.isEnabled()
    window.editor.file_given.emit(demo_model_path / "chat_template.jinja")
    await eventually(lambda: window.use.isEnabled())
    window.use.click()
    await eventually(lambda: opened.info is not None and opened.info.user_template)
    assert "<|im_start|>user\nHi" in await prompt_of(opened)


async def test_file_is_dropped_and_one_without_a_template_is_refused_in_words(
    opened: OpenedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(
        "ui.models.template_window.show_error", lambda *told: shown.append(told[1:])
    )
    window = await opened_template(opened)
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}\\r\\nend"}')
    drop(window.editor.field.viewport(), tmp_path / "tokenizer_config.json")
    assert window.editor.field.text() == "{{ messages }}\nend"
    (tmp_path / "other.json").write_text("{}")
    drop(window, tmp_path / "other.json")
    [(text, reason)] = shown
    assert text == "other.json was not opened"
    assert reason.startswith("It has no “chat_template”") or "chat_template" in reason
    window.copy_own.click()
    await eventually(lambda: window.pill.word == "The model’s own")
