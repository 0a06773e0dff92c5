"""What the view that finds models shows of the chosen one: its card, its terms, its fit."""

import shutil
import time
from importlib.metadata import version

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton

from tests.support.hub import CONFIG, Hub
from tests.ui.driving import eventually
from tests.ui.models.finding.conftest import SMALL, spoken
from tests.ui.models.opened import OpenedModels
from ui.models.model_words import readable_card

CARD = b"---\nlicense: mit\n---\n# A card\n\n![logo](https://x/y.png) See [the paper](https://paper.test)."


async def test_model_card_fetches_nothing_and_confirms_links(
    opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_model("a/with-card", CONFIG, safetensors=SMALL)
    site.files["a/with-card"]["README.md"] = CARD
    visited: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: visited.append(url.toString()) or True
    )
    await opened.search("card", "a/with-card")
    details = opened.models.details
    await eventually(lambda: details.card.isVisible() and bool(details.card.toPlainText()))
    assert "See the paper." in details.card.toPlainText()
    asked = [path for _, path, _ in site.requests]
    assert not any(path.endswith(".png") for path in asked)
    details.card.anchorClicked.emit(QUrl("https://paper.test"))
    box = QApplication.activeModalWidget() or next(
        one for one in QApplication.topLevelWidgets() if isinstance(one, QMessageBox)
    )
    assert visited == []
    next(b for b in box.findChildren(QPushButton) if b.text() == "Open").click()
    assert visited == ["https://paper.test"]
    details.card.anchorClicked.emit(QUrl("LICENSE"))
    boxes = [one for one in QApplication.topLevelWidgets() if isinstance(one, QMessageBox)]
    assert any(
        f"{site.url}/a/with-card/blob/main/LICENSE" in one.informativeText() for one in boxes
    )
    for one in boxes:
        one.close()
    details.page.click()
    assert visited[-1] == f"{site.url}/a/with-card"


async def test_model_with_unreadable_card_can_be_downloaded(
    opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/no-card", CONFIG, safetensors=SMALL)
    await opened.search("card", "a/no-card")
    details = opened.models.details
    await eventually(lambda: details.card_note.text() == "It has no model card.")
    assert details.primary.isEnabled()


async def test_a_long_card_is_shown_in_part_and_its_page_is_named(
    opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/long", CONFIG, safetensors=SMALL)
    site.files["a/long"]["README.md"] = b"Some words.\n\n" * 50_000
    await opened.search("long", "a/long")
    details = opened.models.details
    await eventually(lambda: "beginning of the card" in details.card_note.text())
    assert 10_000 < len(details.card.toPlainText()) <= 12_000


async def test_a_gated_model_says_what_to_do(opened: OpenedModels, site: Hub) -> None:
    site.add_model("a/gated", CONFIG, safetensors=SMALL)
    site.gated.add("a/gated")
    await opened.search("gated", "a/gated")
    details = opened.models.details
    assert details.gated.isVisible()
    assert "accept its terms" in details.gated.text()
    assert details.accept.isVisible()
    assert details.fit.isHidden()
    assert "hf auth login" in details.gated.text()
    await eventually(lambda: "its terms have to be accepted" in spoken(opened.models)[0])
    await eventually(lambda: opened.models.finder.card.stage == "missing")
    assert details.card_note.isHidden()
    assert ("Access", "Gated") in details.shown_facts


async def test_a_download_that_cannot_work_is_not_offered_and_says_why(
    opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_model("a/one-picture", {**CONFIG, "model_type": None}, safetensors=SMALL)
    site.add_model("a/one-newer", {**CONFIG, "model_type": "newer9"}, safetensors=SMALL)
    site.add_model("a/one-large", CONFIG, safetensors=SMALL)
    full = shutil.disk_usage("/")._replace(free=1_000_000)
    details = opened.models.details
    await opened.search("picture", "a/one-picture")
    await eventually(lambda: "not a language model" in details.problem.text())
    assert not details.primary.isEnabled()
    await opened.search("newer", "a/one-newer")
    words = f"architecture newer9, which mlx-lm {version('mlx-lm')} does not support"
    await eventually(lambda: words in details.problem.text())
    assert not details.primary.isEnabled()
    assert not details.fit.isVisible()
    [row] = spoken(opened.models)
    assert words in row
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    await opened.search("large", "a/one-large")
    await eventually(lambda: "1.0 MB free; make room" in details.problem.text())
    assert not details.primary.isEnabled()
    QTest.keyClick(opened.models.list, Qt.Key.Key_Return)
    assert opened.models.question.caption.text() == details.problem.text()
    assert details.problem.isVisible()
    assert not details.then.isVisible()


def test_card_has_no_pictures_badges_and_html() -> None:
    text = """<p align="center">
  <img src="https://x.test/logo.png" width="400">
</p>

[![License](https://x.test/badge.svg)](LICENSE) ![logo](https://x.test/y.png)

<!-- a comment -->
# A Card

Made from [`a/b`]() with <b>care</b>: `<|end|>` ends.

```html
<p>kept</p>
```
"""
    assert readable_card(text) == (
        "## A Card\n\nMade from `a/b` with care: `<|end|>` ends.\n\n```html\n<p>kept</p>\n```"
    )


@pytest.mark.parametrize("begin", ["<!-- ", "<style>", "[![", "[", "![a](", "[![a](b)](", " "])
def test_card_of_unclosed_parts_is_read_in_linear_time(begin: str) -> None:
    began = time.process_time()
    readable_card(begin * 100_000)
    assert time.process_time() - began < 2


async def test_headings_of_a_card_are_not_larger_than_the_title(
    opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/headed", CONFIG, safetensors=SMALL)
    site.files["a/headed"]["README.md"] = b"# One\n\n## Two\n\nWords."
    await opened.search("headed", "a/headed")
    details = opened.models.details
    await eventually(lambda: "Words." in details.card.toPlainText())
    block, sizes = details.card.document().begin(), []
    while block.isValid():
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        sizes.append(cursor.charFormat().font().pointSizeF())
        block = block.next()
    one, two, words = sizes
    assert words < two < one <= details.name.font().pointSizeF()
