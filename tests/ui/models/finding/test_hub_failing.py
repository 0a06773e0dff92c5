"""The view that finds models, beside a hub that refuses, is slow or cannot be reached."""

import threading
from pathlib import Path

import pytest

from tests.support.hub import CONFIG, Hub
from tests.ui.models.finding.conftest import SMALL
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme


async def test_without_a_hub_it_says_so_shows_what_is_here_and_tries_again(
    opened: OpenedModels, site: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_model("a/demo-like", CONFIG, safetensors=SMALL)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    await opened.search("demo")
    finding = opened.models
    assert "cannot be reached" in finding.problem.text()
    assert finding.details.card_note.isHidden(), "the sentence stands once in the window"
    assert opened.pick("demo-model").primary.text() == "Load"
    assert not finding.details.page.isVisible()
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    finding.again.click()
    await opened.found("a/demo-like")
    assert not finding.problem.isVisible()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    await opened.search("nothing-like-it")
    assert finding.empty.isVisible()
    assert finding.again.isVisible()
    await opened.search("0.6b")
    assert [result.name for result in finding.finder.results] == ["mlx-community/Qwen3-0.6B-4bit"]


async def test_gated_model_has_its_page_at_hand(opened: OpenedModels, site: Hub) -> None:
    site.gated.add("makers/gated")
    await opened.search("makers/gated")
    assert opened.models.page.isVisible()
    assert "accept its terms" in opened.models.problem.text()
    await opened.search("nothing-like-it")
    assert not opened.models.page.isVisible()


async def test_search_of_slow_hub_is_cancelled(opened: OpenedModels, site: Hub) -> None:
    finding = opened.models
    site.answers.clear()
    finding.finder.search("demo")
    assert finding.bar.isVisible()
    finding.stop.click()
    assert finding.finder.stage == "failed"
    assert finding.problem.text() == "The search was cancelled."
    opened.click("demo-model")
    await opened.loaded("demo-model")
    assert not site.answers.is_set()


async def test_the_window_closes_at_once_while_the_hub_is_asked(
    theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> None:
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        site.answers.clear()
        opened.models.show_finding()
        opened.models.finder.search("demo")
    # Leaving the block has waited for everything, and the hub has not answered yet.
    assert not site.answers.is_set()
    asking = [one for one in threading.enumerate() if one.name == "asks a hub"]
    assert all(one.daemon for one in asking)
