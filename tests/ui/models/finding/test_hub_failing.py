"""The view that finds models, beside a hub that refuses, is slow or cannot be reached."""

import threading

import pytest

from tests.support.hub import Hub
from tests.ui.driving import RunOnLoop, eventually
from tests.ui.models.finding.conftest import CONFIG, SMALL
from tests.ui.models.opened import OpenedModels


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


def test_a_hub_answer_that_is_not_a_list_is_an_error(
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
