"""The view that finds models, against a hub on this machine."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton

from engine.library.hub.suggestions import SUGGESTIONS
from engine.library.memory import Memory
from tests.support.hub import Hub, hub
from tests.ui.driving import RunOnLoop, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.look.theme import Theme
from ui.models.finding.find_view import FindView
from ui.models.finding.offers import fit_state

GIB = 1 << 30
CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "quantization": {"bits": 4},
}
SMALL = {"parameters": {"U32": 1_000_000}, "total": 1_000_000}
LARGE = {"parameters": {"U32": 10**10}, "total": 10**10}
CARD = b"---\nlicense: mit\n---\n# A card\n\n![logo](https://x/y.png) See [the paper](https://paper.test)."


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(
        "ui.models.model_library.memory", lambda: Memory(usable=16 * GIB, available=8 * GIB)
    )
    with hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub) -> OpenedModels:
    return OpenedModels(theme, tmp_path, demo_model_path)


def spoken(finding: FindView) -> list[str]:
    """Return the rows as a screen reader reads them."""
    model = finding.list.offers
    role = int(Qt.ItemDataRole.AccessibleTextRole)
    return [str(model.data(model.index(row), role)) for row in range(model.rowCount())]


def test_a_search_lists_name_size_bits_downloads_day_license_and_fit(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    facts = {"downloads": 43_210, "lastModified": "2026-10-05T00:00:00Z"}
    tags = ["mlx", "license:mit"]
    site.add_model("a/Qwen-small", CONFIG, safetensors=SMALL, tags=tags, **facts)
    site.add_model("b/Qwen-large", CONFIG, safetensors=LARGE)

    async def play() -> None:
        async with opened:
            await opened.search("qwen", "a/Qwen-small", "b/Qwen-large")
            finding = opened.models.finding
            await eventually(lambda: all(one.is_checked for one in finding.finder.offers))
            small, large = spoken(finding)
            assert small == (
                "a/Qwen-small, 4.0 MB, 4 bit, 43k downloads, 2026-10-05, mit, fit: Fits"
            )
            assert "fit: Too large" in large
            assert "Fits this computer: it needs about" in finding.details.fit.text()
            QTest.keyClick(finding.list, Qt.Key.Key_Down)
            assert "can be used for models" in finding.details.fit.text()

    run(play())


def test_typing_alone_searches_and_the_newest_text_counts(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/first", CONFIG, safetensors=SMALL)
    site.add_model("a/second", CONFIG, safetensors=SMALL)

    async def play() -> None:
        async with opened:
            opened.models.show_finding()
            await eventually(lambda: opened.models.finding.finder.stage != "asking")
            site.answers.clear()
            opened.models.finding.finder.search("first")
            QTest.keyClicks(opened.models.finding.field, "second")
            await eventually(lambda: opened.models.finding.finder.query == "second")
            site.answers.set()
            await opened.found("a/second")

    run(play())


def test_an_empty_field_suggests_models_that_fit_with_the_sizes_of_the_hub(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    for one in SUGGESTIONS:
        site.add_model(one.name, CONFIG, downloads=7)
        site.files[one.name]["model.safetensors"] = b"w" * 1_230_000

    async def play() -> None:
        async with opened:
            opened.models.show_finding()
            finding = opened.models.finding
            await eventually(lambda: len(finding.finder.offers) == 6)
            await eventually(lambda: all("1.2 MB" in row for row in spoken(finding)))
            for offer, row in zip(finding.finder.offers, spoken(finding), strict=True):
                assert offer.purpose
                assert "fit: Fits" in row
                assert "7 downloads" in row
            assert "6 models that fit" in finding.note.text()

    run(play())


def test_more_models_are_shown_on_request_and_the_chosen_one_stays(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.most_listed = 7
    for number in range(50):
        site.add_model(f"a/model-{number:02}", CONFIG, safetensors=SMALL, downloads=100 - number)
    names = [f"a/model-{number:02}" for number in range(50)]

    async def play() -> None:
        async with opened:
            await opened.search("model", *names[:20])
            finding = opened.models.finding
            finding.list.pick(19)
            finding.more.click()
            await opened.found(*names[:40])
            assert finding.details.name.text() == names[19]
            finding.more.click()
            await opened.found(*names)
            assert not finding.more.isVisible()

    run(play())


def test_a_model_card_is_shown_without_fetching_pictures_and_its_links_ask_first(
    run: RunOnLoop, opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_model("a/with-card", CONFIG, safetensors=SMALL)
    site.files["a/with-card"]["README.md"] = CARD
    visited: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: visited.append(url.toString()) or True
    )

    async def play() -> None:
        async with opened:
            await opened.search("card", "a/with-card")
            details = opened.models.finding.details
            await eventually(lambda: details.card.isVisible() and bool(details.card.markdown))
            assert details.card.shown_text().strip() == "A card\nlogo See the paper."
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
                f"{site.url}/a/with-card/blob/main/LICENSE" in one.informativeText()
                for one in boxes
            )
            for one in boxes:
                one.close()
            details.page.click()
            assert visited[-1] == f"{site.url}/a/with-card"

    run(play())


def test_a_card_that_cannot_be_read_says_why_and_the_model_can_still_be_downloaded(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/no-card", CONFIG, safetensors=SMALL)

    async def play() -> None:
        async with opened:
            await opened.search("card", "a/no-card")
            details = opened.models.finding.details
            await eventually(lambda: "hub refused" in details.card_note.text())
            assert details.primary.isEnabled()

    run(play())


def test_a_long_card_is_shown_in_part_and_its_page_is_named(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/long", CONFIG, safetensors=SMALL)
    site.files["a/long"]["README.md"] = b"Some words.\n\n" * 50_000

    async def play() -> None:
        async with opened:
            await opened.search("long", "a/long")
            details = opened.models.finding.details
            await eventually(lambda: "beginning of the card" in details.card_note.text())
            await eventually(lambda: len(details.card.markdown) > 10_000)
            assert len(details.card.markdown) <= 12_000

    run(play())


def test_a_gated_model_says_what_to_do(run: RunOnLoop, opened: OpenedModels, site: Hub) -> None:
    site.add_model("a/gated", CONFIG, safetensors=SMALL)
    site.gated.add("a/gated")

    async def play() -> None:
        async with opened:
            await opened.search("gated", "a/gated")
            details = opened.models.finding.details
            assert details.gated.isVisible()
            assert "accept its terms" in details.gated.text()
            assert "hf auth login" in details.gated.text()
            [row] = spoken(opened.models.finding)
            assert "gated" in row.split(", ")

    run(play())


def test_a_repository_is_found_by_its_name_or_its_pages_address_whatever_its_tags(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("makers/exact", CONFIG, tags=[])
    site.files["makers/exact"]["model.safetensors"] = b"w" * 2_000_000

    async def play() -> None:
        async with opened:
            await opened.search("https://huggingface.co/makers/exact/tree/main", "makers/exact")
            details = opened.models.finding.details
            assert details.primary.text() == "Download 2.0 MB"
            await opened.search("makers/none")
            assert "no repository makers/none" in opened.models.finding.problem.text()

    run(play())


def test_without_a_hub_it_says_so_shows_what_is_here_and_tries_again(
    run: RunOnLoop, opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_model("a/demo-like", CONFIG, safetensors=SMALL)

    async def play() -> None:
        async with opened:
            monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
            await opened.search("demo", "demo-model")
            finding = opened.models.finding
            assert "cannot be reached" in finding.problem.text()
            assert finding.note.text() == "1 model on this computer"
            assert finding.details.primary.text() == "Load"
            assert not finding.details.page.isVisible()
            monkeypatch.setenv("HF_ENDPOINT", site.url)
            finding.again.click()
            await opened.found("a/demo-like")
            assert not finding.problem.isVisible()
            monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
            await opened.search("nothing-like-it")
            assert "No model on this computer" in finding.empty.text()

    run(play())


def test_without_a_hub_the_models_here_and_the_suggestions_are_listed(
    run: RunOnLoop, opened: OpenedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    async def play() -> None:
        async with opened:
            opened.models.show_finding()
            finding = opened.models.finding
            await eventually(lambda: finding.finder.stage == "failed")
            names = [one.name for one in finding.finder.offers]
            assert names[0] == "demo-model"
            assert len(names) == 7
            finding.list.pick(0)
            opened.models.finding.details.primary.click()
            await opened.loaded("demo-model")

    run(play())


def test_a_search_without_results_says_so(run: RunOnLoop, opened: OpenedModels, site: Hub) -> None:
    async def play() -> None:
        async with opened:
            await opened.search("nothing-like-it")
            finding = opened.models.finding
            assert "“nothing-like-it”" in finding.empty.text()
            assert not finding.list.isVisible()
            assert not finding.details.primary.isVisible()

    run(play())


@pytest.mark.parametrize(("status", "said"), [(429, "asked too often"), (500, "hub refused: 500")])
def test_a_hub_that_refuses_is_quoted(
    run: RunOnLoop, opened: OpenedModels, site: Hub, status: int, said: str
) -> None:
    site.status = status

    async def play() -> None:
        async with opened:
            opened.models.show_finding()
            finding = opened.models.finding
            await eventually(lambda: finding.finder.stage == "failed")
            assert said in finding.problem.text()

    run(play())


def test_an_answer_that_is_no_list_is_an_error(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.raw = b"<html>"

    async def play() -> None:
        async with opened:
            await opened.search("demo", "demo-model")
            assert "cannot be read" in opened.models.finding.problem.text()

    run(play())


def test_a_slow_hub_is_called_slow_the_window_goes_on_and_the_search_can_be_cancelled(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    async def play() -> None:
        async with opened:
            finding = opened.models.finding
            site.answers.clear()
            opened.models.show_finding()
            finding.finder.search("demo")
            assert finding.bar.isVisible()
            assert finding.note.text() == "Searching…"
            finding.finder._slow.start(0)
            await eventually(lambda: finding.note.text() == "The hub is slow to answer…")
            finding.stop.click()
            assert finding.finder.stage == "failed"
            assert finding.problem.text() == "The search was cancelled."
            opened.click("demo-model")
            await opened.loaded("demo-model")
            assert not site.answers.is_set()

    run(play())


def test_the_window_closes_at_once_while_the_hub_is_asked(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    async def play() -> None:
        async with opened:
            site.answers.clear()
            opened.models.show_finding()
            opened.models.finding.finder.search("demo")
        # Leaving the block has waited for everything, and the hub has not answered yet.
        assert not site.answers.is_set()
        asking = [one for one in threading.enumerate() if one.name == "asks a hub"]
        assert all(one.daemon for one in asking)

    run(play())


def test_a_model_is_found_downloaded_and_left_with_keys_alone(
    run: RunOnLoop, opened: OpenedModels, site: Hub, demo_model_path: Path
) -> None:
    site.add_folder("makers/demo-model", demo_model_path)
    site.facts["makers/demo-model"] = {"tags": ["mlx"], "safetensors": SMALL}
    site.add_model("makers/demo-other", CONFIG, safetensors=SMALL, downloads=9)

    async def play() -> None:
        async with opened:
            models, finding = opened.models, opened.models.finding
            models.show_finding()
            QTest.keyClicks(finding.field, "demo")
            await opened.found("makers/demo-other", "makers/demo-model")
            QTest.keyClick(finding.field, Qt.Key.Key_Down)
            QTest.keyClick(finding.list, Qt.Key.Key_Down)
            assert finding.details.name.text() == "makers/demo-model"
            QTest.keyClick(finding.list, Qt.Key.Key_Return)
            await opened.loaded("makers/demo-model")
            models.show_finding()
            assert finding.field.text() == "demo"
            assert finding.clear_search() is finding.field.hasFocus()

    run(play())


def test_enter_on_a_model_that_is_being_downloaded_starts_nothing_else(
    run: RunOnLoop, opened: OpenedModels, site: Hub, demo_model_path: Path
) -> None:
    site.add_folder("makers/demo-model", demo_model_path)
    site.facts["makers/demo-model"] = {"tags": ["mlx"], "safetensors": SMALL}
    site.holds_after = {"model.safetensors": 1 << 20}

    async def play() -> None:
        async with opened:
            await opened.search("demo", "makers/demo-model")
            finding = opened.models.finding
            for _ in range(2):
                QTest.keyClick(finding.list, Qt.Key.Key_Return)
            [one] = opened.window.model_library.downloads.items
            await eventually(lambda: one.progress.done_bytes >= 1 << 20)
            assert "Downloading" in spoken(finding)[0]

    run(play())


def test_the_fit_of_a_model_is_told_in_a_word_before_and_after_it_is_known(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/unknown", CONFIG)

    async def play() -> None:
        async with opened:
            await opened.search("unknown", "a/unknown")
            finder = opened.models.finding.finder
            await eventually(lambda: finder.offers[0].is_checked)
            assert fit_state(finder.offers[0], finder.memory)[0] == "Not known"

    run(play())


def test_an_empty_chat_leads_to_the_view_that_finds_models(
    run: RunOnLoop, opened: OpenedModels
) -> None:
    async def play() -> None:
        async with opened:
            find = opened.window.chat.welcome.find_button
            assert find.text() == "Find a model…"
            find.click()
            assert opened.models.finding.isVisible()
            opened.click("demo-model")
            await opened.loaded("demo-model")
            await eventually(lambda: find.text() == "Find another model…")

    run(play())


def test_the_chosen_model_is_below_the_list_in_a_narrow_window(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/model", CONFIG, safetensors=SMALL)

    async def play() -> None:
        async with opened:
            await opened.search("model", "a/model")
            finding = opened.models.finding

            def tops() -> tuple[int, int]:
                both = (finding.list, finding.details)
                listed, chosen = (one.mapTo(finding, one.rect().topLeft()).y() for one in both)
                return listed, chosen

            opened.models.resize(1100, 800)
            await eventually(lambda: abs(tops()[0] - tops()[1]) < 20)
            opened.models.resize(620, 800)
            await eventually(lambda: tops()[1] > tops()[0] + 100)
            assert finding.width() <= 620

    run(play())
