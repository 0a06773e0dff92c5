"""The prompt of the shown run as tokens; the engine is asked for them when they are needed.

Main thread.
"""

from PySide6.QtCore import QObject, Signal

from engine import Engine, EngineError, GenerationRequest
from ui.inspector.run.shown_run import ShownRun
from ui.kit.background.tasks import Tasks
from ui.words.failures import failure_words


class ShownPrompt(QObject):
    """Knows the prompt of one run at a time.

    Signals:
        read: The prompt was read, or reading it failed; see ``pieces`` and ``problem``.
    """

    read = Signal()

    def __init__(self, engine: Engine, parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = Tasks()
        self._shown: ShownRun | None = None
        self.pieces: tuple[tuple[int, str], ...] | None = None
        self.problem = ""

    def follow(self, shown: ShownRun | None) -> None:
        """Forget the prompt of the previous run."""
        self._shown = shown
        self.pieces, self.problem = None, ""

    def ask(self) -> None:
        """Ask the engine for the prompt's tokens, if they are not known yet."""
        shown = self._shown
        if self.pieces is None and shown is not None and shown.request is not None:
            self._tasks.start(self._read(shown, shown.request), "read a prompt")

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    async def _read(self, shown: ShownRun, request: GenerationRequest) -> None:
        try:
            pieces = await self._engine.prompt_pieces(request)
        except EngineError as error:
            pieces, problem = None, failure_words(error)
        else:
            problem = ""
        if self._shown is shown:
            self.pieces, self.problem = pieces, problem
            self.read.emit()
