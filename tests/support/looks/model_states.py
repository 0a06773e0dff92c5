"""The states of models for the tour: kept, found, downloaded, and one that cannot be loaded."""

import tempfile
from pathlib import Path

from tests.support.hub import Hub
from tests.support.looks.pictured_chat import Show, Until
from tests.support.looks.pictured_models import PIECE_S, begin_downloads
from tests.take_screenshots import ROOT, take_finding
from ui.models.model_entries import Entry
from ui.window.main_window import MainWindow

DEMO = ROOT / "assets" / "demo-model"


class ModelStates:
    """Walks a window and its window of models through their states."""

    def __init__(self, window: MainWindow, site: Hub, show: Show, until: Until) -> None:
        self._window = window
        self._site = site
        self._show = show
        self._until = until

    async def walk(self) -> None:
        await self._listed()
        await self._failed()

    async def _listed(self) -> None:
        """The window of models with a download that runs and one that was refused."""
        self._site.piece_s = PIECE_S
        self._window.others.show_models()
        models, library = self._window.others.models, self._window.model_library
        assert library is not None
        await self._until(lambda: bool(library.local))
        await self._show("models", models)
        begin_downloads(library)
        await self._until(lambda: library.downloads.items[0].progress.done_bytes > 400_000)
        await self._show("models-downloading", models)
        library.downloads.cancel_all()
        large = next(model for model in library.local if "70B" in model.found.name)
        models.list.pick(Entry(large.found.name, large))
        models.details.primary.click()
        await self._show("models-too-large", models)
        models.question.hide()
        await take_finding(models)
        await self._show("models-found", models)
        finder = models.finder
        models.field.setText("gpt-oss")
        await self._until(lambda: finder.query == "gpt-oss" and finder.stage == "listed")
        await self._until(lambda: all(one.is_checked for one in finder.results))
        await self._show("models-searched", models)
        self._site.status = 503
        models.field.setText("qwen")
        await self._until(lambda: finder.query == "qwen" and finder.stage == "failed")
        await self._show("models-without-a-hub", models)
        self._site.status = 200
        models.field.clear()

    async def _failed(self) -> None:
        """A model that cannot be loaded, beside one that works and without one."""
        model = self._window.workspace.models
        with tempfile.TemporaryDirectory() as name:
            self._window.workspace.models.load(Path(name))
            await self._until(lambda: model.stage == "ready" and bool(model.message))
            await self._show("model-kept")
            model.unload()
            await self._until(lambda: model.stage == "none")
            self._window.workspace.models.load(Path(name))
            await self._until(lambda: model.stage == "failed")
            await self._show("model-failed")
            await self._show("models-failed", self._window.others.models)
        self._window.workspace.models.load(DEMO)
        await self._until(lambda: model.stage == "ready")
