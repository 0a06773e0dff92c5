"""A window of models on a computer to which one was downloaded, and its menu."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.library.downloads import HubDownload
from tests.support.hub import Hub, hub
from tests.ui.driving import Enter, Living, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        served.facts[REPOSITORY] = {"tags": ["mlx"], "lastModified": "2026-11-01T00:00:00Z"}
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> Living[OpenedModels]:
    """A window on a computer to which the model was downloaded."""
    HubDownload(REPOSITORY, tmp_path / "hub").run()
    site.requests.clear()
    return enter(lambda: OpenedModels(theme, tmp_path, demo_model_path))


@pytest.fixture
def repository_folder(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "models--makers--demo-model"


def is_there(folder: Path) -> bool:
    return folder.exists()


def choose(opened: OpenedModels, words: str, name: str = REPOSITORY) -> None:
    opened.commands(name)[words].run()


async def asked(opened: OpenedModels, words: str) -> None:
    question = opened.models.question
    await eventually(lambda: question.isVisible() and words in question.caption.text())
