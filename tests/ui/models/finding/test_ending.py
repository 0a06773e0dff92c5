"""What arrives while the window of models ends is not shown any more, and begins nothing."""

import asyncio
import threading
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.hub import CONFIG
from tests.ui.driving import eventually
from tests.ui.models.finding.conftest import SMALL, Hub
from tests.ui.models.opened import OpenedModels
from ui.kit import tasks

NAME = "mlx-community/small-chat-4bit"


class Held:
    """A request whose answer has arrived, and is handed over when the test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        real = getattr(__import__("ui.models.finder", fromlist=[name]), name)

        def held(*asked: Any) -> Any:
            answer = real(*asked)
            self.began.set()
            assert self.may_end.wait(60)
            return answer

        monkeypatch.setattr(f"ui.models.finder.{name}", held)

    async def ended_by(self, opened: OpenedModels) -> None:
        """End the view while the answer is on its way, and wait for both."""
        await eventually(self.began.is_set)
        ending = asyncio.ensure_future(opened.models.finding.finish())
        await asyncio.sleep(0)
        self.may_end.set()
        await ending


@pytest.mark.parametrize("name", ["found_for", "card"])
async def test_nothing_is_shown_or_begun_by_an_answer_that_comes_at_the_end(
    opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    site.add_model(NAME, CONFIG, safetensors=SMALL)
    site.files[NAME]["README.md"] = b"# A card"
    await eventually(lambda: opened.models.finding.finder.stage != "asking")
    held = Held(monkeypatch, name)
    opened.models.show_finding()
    finding = opened.models.finding
    finding.field.setText("small-chat")
    QTest.keyClick(finding.field, Qt.Key.Key_Return)
    if name == "card":
        await opened.found(NAME)
    before = finding.details.card.toPlainText()
    shown: list[object] = []
    finding.finder.cards.changed.connect(lambda: shown.append(finding.finder.cards.card))
    await held.ended_by(opened)
    assert [one for one in shown if getattr(one, "stage", "") == "shown"] == []
    assert finding.details.card.toPlainText() == before
    owners = {id(finding.finder), id(finding.finder.cards)}
    assert not [task for task, owner in tasks._open.items() if id(owner) in owners]
