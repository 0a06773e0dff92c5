"""The cards of calls: permission, progress, result, and the limit."""

import json
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QWidget
from pytestqt.qtbot import QtBot

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from engine.values.request import ToolCall
from tests.ui.driving import eventually
from ui.chat.messages.tool_cards import ToolCards
from ui.kit.layouts import column
from ui.kit.menus import copied_text
from ui.kit.theme import Theme
from ui.kit.windows import OwnWindow
from ui.records.attachments import kept_as
from ui.records.runs import LiveRun, Run
from ui.records.tool_calls import (
    DENIAL_REASON,
    CallProgress,
    CallResult,
    Decision,
    Permission,
)
from ui.records.tool_servers import QuestionField, QuestionReply, ServerQuestion

ENDED = Finished(StopInfo(StopKind.TOOL_CALL), Usage(), Timing())


@pytest.fixture
def called() -> Run:
    calls = [ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", '{"a": 2}')]
    return Run(state="finished", tool_calls=calls, finished=ENDED, live=LiveRun(is_calling=True))


@pytest.fixture
def cards(theme: Theme, qtbot: QtBot, called: Run) -> ToolCards:
    called.live.progress["c1"] = CallProgress("sums", "add", needs_user=True)
    cards = ToolCards()
    qtbot.addWidget(cards)
    cards.resize(600, 500)
    cards.show()
    cards.show_run(called)
    return cards


def test_a_button_allows_or_denies_a_call(cards: ToolCards) -> None:
    decided: list[tuple[str, Decision]] = []
    cards.replied.connect(lambda call_id, decision: decided.append((call_id, decision)))
    permission = cards.cards["c1"].permission
    assert permission is not None
    names = [button.accessibleName() for button in permission.buttons.values()]
    assert names == ["Allow add of sums once", "Deny add of sums"]
    assert not permission.reason.isVisible()
    permission.buttons["denied"].click()
    assert decided == [("c1", Decision("denied"))]
    assert cards.cards["c2"].permission is None
    assert "Waiting" in cards.cards["c2"].accessibleName()


@pytest.mark.parametrize(("at", "permission"), [(0, "conversation"), (1, "always")])
def test_menu_beside_allow_allows_further_calls(
    cards: ToolCards, at: int, permission: Permission
) -> None:
    decided: list[Decision] = []
    cards.replied.connect(lambda _, decision: decided.append(decision))
    shown = cards.cards["c1"].permission
    assert shown is not None
    shown.menus["once"].actions()[at].trigger()
    assert decided == [Decision(permission)]


def test_denial_with_reason_can_be_taken_back(cards: ToolCards, called: Run) -> None:
    decided: list[Decision] = []
    cards.replied.connect(lambda _, decision: decided.append(decision))
    shown = cards.cards["c1"].permission
    assert shown is not None
    (with_reason,) = shown.menus["denied"].actions()
    with_reason.trigger()
    assert shown.reason.isVisible()
    assert not shown.buttons["once"].isVisible()
    shown.back.click()
    assert shown.buttons["once"].isVisible()
    with_reason.trigger()
    shown.reason.setText("Not now.")
    shown.deny.click()
    assert decided == [Decision("denied", "Not now.")]


def test_head_of_card_says_why_call_did_not_succeed(cards: ToolCards, called: Run) -> None:
    called.live.progress.clear()
    denied = f"The user did not allow this call.{DENIAL_REASON}Not now."
    called.results += [
        CallResult("c1", "failed", "\nNo such file.\nTraceback", "sums", "add", 0.1),
        CallResult("c2", "denied", denied, "sums", "add"),
    ]
    cards.show_run(called)
    assert "Failed · No such file.:" in cards.cards["c1"].accessibleName()
    assert "Denied · Not now.:" in cards.cards["c2"].accessibleName()


def test_long_arguments_are_folded_and_shown_whole(cards: ToolCards, called: Run) -> None:
    called.tool_calls.append(ToolCall("c3", "add", json.dumps({"text": "x" * 900})))
    cards.show_run(called)
    shown = cards.cards["c3"].arguments
    assert shown is not None
    assert len(shown.toPlainText()) < 700
    shown.fold.click()
    assert json.loads(shown.toPlainText()) == {"text": "x" * 900}


def test_a_running_call_shows_its_progress_and_then_its_result(
    cards: ToolCards, called: Run
) -> None:
    card = cards.cards["c1"]
    called.live.progress["c1"] = CallProgress("sums", "add", False, 2.5, 1, 4, "counting")
    cards.show_run(called)
    assert card.permission is None
    assert "sums · Running for 2.50 s · 1 of 4 · counting" in card.accessibleName()
    called.live.progress.clear()
    called.results.append(CallResult("c1", "done", "3\x1b[31m", "sums", "add", 2.6))
    cards.show_run(called)
    assert "sums · Done · 2.60 s" in card.accessibleName()
    assert card._status.text() == "sums · Done · 2.60 s · 1"
    card.unfold.click()
    assert card._status.text() == "sums · Done · 2.60 s", "the arguments are below"
    card.unfold.click()
    assert card.result.toPlainText() == "3␛[31m"
    assert not card.result.isVisible()  # a finished call is one line
    QTest.mouseClick(card, Qt.MouseButton.RightButton, pos=QPoint(60, 12))  # only opens the menu
    assert not card.result.isVisible()
    QTest.mouseClick(card, Qt.MouseButton.LeftButton, pos=QPoint(60, 12))
    assert card.result.isVisible()
    card.unfold.click()
    card.unfold.click()
    assert card.result.isVisible()
    cards.show_run(called)
    assert card.result.isVisible()


def test_text_of_a_call_has_the_menu_of_its_card(cards: ToolCards, called: Run) -> None:
    called.live.progress.clear()
    called.results.append(CallResult("c1", "done", "three", "sums", "add", 2.6))
    cards.show_run(called)
    card = cards.cards["c1"]
    card.unfold.click()
    QTest.qWait(1)

    def menu() -> dict[str, QAction]:
        place = QPoint(4, 4)
        inside = card.result.viewport()
        reason = QContextMenuEvent.Reason.Mouse
        event = QContextMenuEvent(reason, place, inside.mapToGlobal(place))
        QApplication.sendEvent(inside, event)
        shown = QApplication.activePopupWidget()
        assert isinstance(shown, QMenu)
        shown.hide()
        return {action.text().replace("&", ""): action for action in shown.actions()}

    first = menu()
    assert list(first)[:2] == ["Copy", "Select All"]
    assert "Copy Result" in first
    assert not first["Copy"].isEnabled()
    first["Select All"].trigger()
    menu()["Copy"].trigger()
    assert copied_text() == "three"


def test_the_card_of_the_last_call_of_a_server_that_died_starts_it_again(
    cards: ToolCards, called: Run
) -> None:
    wanted: list[str] = []
    cards.restart_requested.connect(wanted.append)
    called.live.progress.clear()
    called.results += [
        CallResult("c1", "done", "3", "sums", "add"),
        CallResult("c2", "failed", "It stopped.", "sums", "add"),
    ]
    cards.show_run(called)
    cards.show_lost({"sums", "others"})
    first, last = cards.cards["c1"], cards.cards["c2"]
    assert first.restart is None
    assert last.restart is not None
    last.restart.click()
    assert wanted == ["sums"]
    cards.show_lost(())
    assert not last.restart.isVisible()


def test_a_question_is_a_form_in_the_card_and_leaves_with_its_answer(
    cards: ToolCards, called: Run
) -> None:
    question = ServerQuestion("sums", "Which way?", (QuestionField("way", "Way"),))
    called.live.progress["c1"] = CallProgress("sums", "add", needs_user=True, question=question)
    replied: list[tuple[str, QuestionReply]] = []
    cards.replied.connect(lambda call_id, reply: replied.append((call_id, reply)))
    cards.show_run(called)
    card = cards.cards["c1"]
    assert card.permission is None
    assert card.question is not None
    assert "sums · Asks you something" in card.accessibleName()
    line = card.question.fields["way"]
    assert isinstance(line, QLineEdit)
    line.setText("left")
    cards.show_run(called)  # what is typed stays
    card.question.send.click()
    assert replied == [("c1", QuestionReply("accept", {"way": "left"}))]
    called.live.progress["c1"] = CallProgress("sums", "add")
    cards.show_run(called)
    assert card.question is None


async def test_the_pictures_of_a_result_are_shown_in_its_card(
    cards: ToolCards, called: Run, tmp_path: Path
) -> None:
    picture, damaged = (kept_as(f"{n}.png", f"{n * 32}.png") for n in "ab")
    image = QImage(900, 300, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.red)
    assert image.save(str(tmp_path / picture.kept_file))
    called.live.progress.clear()
    done = CallResult("c1", "done", "3", "sums", "add", pictures=(picture, damaged))
    called.results.append(done)
    cards.show_pictures(tmp_path)
    cards.show_run(called)
    cards.show_run(called)
    card = cards.cards["c1"]
    assert card.pictures == []  # they are decoded on another thread
    await eventually(lambda: len(card.pictures) == 2)
    assert [one.accessibleName() for one in card.pictures] == [
        "Picture a.png",
        "Picture b.png",
    ]
    shown, not_shown = card.pictures
    assert (shown.iconSize().width(), shown.iconSize().height()) == (420, 140)
    assert not_shown.text() == "A picture that cannot be shown here"
    wanted: list[object] = []
    cards.picture_requested.connect(wanted.append)
    shown.click()
    assert wanted == [picture]
    cards.show_run(called)
    assert len(card.pictures) == 2


def test_a_permission_question_hides_no_characters_of_the_arguments(
    cards: ToolCards, called: Run, theme: Theme
) -> None:
    turned = json.dumps({"path": "a\u202etxt.exe\u200b e\u0301 \U000e0041\x9b"}, ensure_ascii=False)
    called.tool_calls.append(ToolCall("c3", "add", turned))
    cards.show_run(called)
    shown = cards.cards["c3"].arguments
    assert shown is not None
    words = shown.toPlainText()
    assert "a\\u202etxt.exe\\u200b e\u0301 \\udb40\\udc41\\u009b" in words
    assert json.loads(words) == json.loads(turned)
    called.results.append(CallResult("c1", "done", "\u202elive\u202c", "sums", "add", 0.1))
    cards.show_run(called)
    assert cards.cards["c1"].result.toPlainText() == "‹U+202E›live‹U+202C›"


def test_a_long_result_is_shortened_for_the_model_and_sent_whole_again(
    cards: ToolCards, called: Run
) -> None:
    asked: list[tuple[str, int | None]] = []
    cards.cut_requested.connect(lambda call_id, chars: asked.append((call_id, chars)))
    card = cards.cards["c1"]
    called.results = [CallResult("c1", "done", "short")]
    cards.show_run(called)
    assert not card.cut.isVisibleTo(card)
    called.results = [CallResult("c1", "done", "x" * 9_000)]
    cards.show_run(called)
    assert card.cut.text() == "Shorten"
    card.cut.click()
    called.results = [CallResult("c1", "done", "x" * 9_000, sent_chars=4_000)]
    cards.show_run(called)
    assert card.cut.text() == "Send All"
    assert "the first 4,000 of 9,000 characters" in card.sent.text()
    card.cut.click()
    assert asked == [("c1", 4_000), ("c1", None)]


def test_window_of_a_long_result_outlives_its_card(theme: Theme, qtbot: QtBot, called: Run) -> None:
    main, cards = QWidget(), ToolCards()
    qtbot.addWidget(main)
    column(cards, on=main)
    main.show()
    called.results = [CallResult("c1", "done", "x" * 30_000)]
    cards.show_run(called)
    cards.cards["c1"].whole.click()
    [window] = main.findChildren(OwnWindow)
    shiboken6.delete(cards)
    assert shiboken6.isValid(window)
    window.close()
