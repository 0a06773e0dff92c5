"""The line above the chat when the folder of the conversation's model is gone. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from ui.chat.session.answering_model import AnsweringModel
from ui.kit.text.labels import label


class GoneBar(QFrame):
    """Says which model is gone, and offers other models.

    Signals:
        switch_wanted: A person wants to choose a model from the list.
    """

    switch_wanted = Signal()

    def __init__(self, answering: AnsweringModel) -> None:
        super().__init__()
        self.setObjectName("problem_bar")
        self._answering = answering
        self.words = label("", "title", is_wrapped=True)
        self.detail = label("", "muted", 0.95, is_wrapped=True)
        self.use = QPushButton()
        self.use.setAccessibleName("Use the loaded model")
        self.choose = QPushButton("Choose Another…")
        self.choose.setAccessibleName("Choose another model for this conversation")
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self.words)
        texts.addWidget(self.detail)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 10, 12, 10)
        row.setSpacing(10)
        row.addLayout(texts, 1)
        row.addWidget(self.use)
        row.addWidget(self.choose)
        self.use.clicked.connect(self._use_loaded)
        self.choose.clicked.connect(self.switch_wanted)
        answering.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        answering = self._answering
        answers = answering.has_lost_folder
        is_gone, loaded = answers or answering.stage == "gone", answering.loaded.info
        self.setVisible(is_gone)
        if not is_gone:
            return
        folder = None if answering.choice is None else answering.choice.folder
        if loaded is not None and folder is not None and loaded.path == folder:
            loaded = None  # it is the one that is gone
        where = [] if folder is None else [f"It was in {folder}."]
        if answers:
            self.words.setText(f"The folder of {answering.name} is gone.")
            says = [*where, "It goes on answering until it is unloaded."]
        else:
            self.words.setText(f"{answering.name} is no longer on this computer.")
            before = ["It answered this conversation."] if answering.has_answered else []
            says = [*before, *where, "Choose another model to continue; the messages stay."]
        self.detail.setText(" ".join(says))
        self.use.setVisible(loaded is not None)
        if loaded is not None:
            self.use.setText(f"Use {loaded.id}")
            self.use.setAccessibleName(f"Use {loaded.id} for this conversation")

    def _use_loaded(self) -> None:
        loaded = self._answering.loaded.info
        if loaded is not None:
            self._answering.choose(loaded.path)
