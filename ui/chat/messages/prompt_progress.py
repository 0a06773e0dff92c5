"""The progress of an answer before its first word. Main thread."""

from PySide6.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from ui.kit.text.labels import label
from ui.records.runs import Run, RunState, progress_words


class PromptProgressBar(QWidget):
    """Says what the run is doing, with a bar while the prompt is read."""

    def __init__(self) -> None:
        super().__init__()
        self._words = label("", "muted", 0.95)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(4)
        self._bar.setMaximumWidth(260)
        self._bar.setAccessibleName("Prompt read")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 2, 0, 2)
        layout.setSpacing(6)
        layout.addWidget(self._words)
        layout.addWidget(self._bar)

    def show_run(self, run: Run) -> None:
        """Show how much of the prompt is read; hide once there is text."""
        waits = not run.is_over and not (run.text or run.thinking or run.tool_calls)
        self.setVisible(waits)
        if not waits:
            return
        self._words.setText(progress_words(run))
        self._bar.setVisible(run.state is RunState.PREFILL and run.prompt_total > 0)
        if run.prompt_total:
            self._bar.setRange(0, run.prompt_total)
            self._bar.setValue(run.prompt_processed)
