"""The tool calls of an answer, each in a card. Main thread."""

from collections.abc import Collection
from functools import cached_property

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from ui.chat.calling.call_words import UNFINISHED, pretty, share_done, state_words
from ui.chat.calling.growing_card import GrowingCard
from ui.chat.calling.tool_card import PausedRow, ToolCard
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import FlowText
from ui.kit.text.searched import SearchedPart
from ui.records.runs import Run
from ui.records.tools import Decision
from ui.words.tones import Tone


class ToolCards(QWidget):
    """Shows the calls of a run, including a call that the end cut short.

    A call that is being written has a card that grows.

    Signals:
        decided: The person allowed or denied a call; carries its id and the ``Decision``.
        continue_wanted: The person allows more calls than the limit.
    """

    decided = Signal(str, object)
    continue_wanted = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.cards: dict[str, ToolCard] = {}
        self._growing: dict[str, GrowingCard] = {}
        self._unfinished: ToolCard | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self.hide()

    @cached_property
    def paused(self) -> PausedRow:
        """The row that says that the limit of calls was reached."""
        paused = PausedRow()
        paused.proceed.clicked.connect(self.continue_wanted)
        self._column.addWidget(paused)
        return paused

    def show_run(self, run: Run) -> None:
        """Show a run's calls in their present state."""
        unfinished = run.finished.unfinished_tool_call if run.finished is not None else ""
        if not (run.tool_calls or run.growing_calls or self._growing or unfinished):
            return
        self._drop_growing({call.call_id for call in run.growing_calls})
        for call in run.tool_calls:
            card = self.cards.get(call.id)
            if card is None:
                card = self.cards[call.id] = ToolCard(
                    self._theme, call.name, pretty(call.arguments)
                )
                card.decided.connect(lambda said, name=call.id: self._pass_on(name, said))
                self._add(card)
            progress = run.progress.get(call.id)
            card.show_state(*state_words(run, call.id))
            card.show_progress(progress, share_done(progress))
            card.show_result(run.result_of(call.id))
        for growing in run.growing_calls:
            if (grown := self._growing.get(growing.call_id)) is None:
                grown = self._growing[growing.call_id] = GrowingCard(self._theme, growing)
                self._add(grown)
            grown.grow()
        if unfinished and self._unfinished is None:
            self._unfinished = ToolCard(self._theme, UNFINISHED, unfinished)
            self._unfinished.show_state("cut short", Tone.LIMIT)
            self._add(self._unfinished)
        self.paused.show_limit(0 if run.is_calling else run.paused_at)
        if run.is_cut_off:
            self.paused.show_cut_off()
        self.setVisible(bool(self.cards or self._growing or self._unfinished))

    def words(self) -> str:
        """Return all text of the cards."""
        parts = [item.text() for item in self.findChildren(QLabel)]
        parts += [item.toPlainText() for item in self.findChildren(FlowText)]
        return "\n".join(part for part in parts if part)

    def searched_parts(self) -> list[SearchedPart]:
        """Return the text of the cards for the search, in the order of the calls."""
        cards = [*self.cards.values(), *([self._unfinished] if self._unfinished else [])]
        return [part for card in cards for part in card.searched_parts()]

    def _drop_growing(self, kept: Collection[str]) -> None:
        """Remove the cards of calls that are no longer being written."""
        for call_id in self._growing.keys() - kept:
            card = self._growing.pop(call_id)
            card.hide()
            card.deleteLater()

    def _add(self, card: QWidget) -> None:
        # Above the row about the limit, which is there once a call was made.
        self._column.insertWidget(self._column.indexOf(self.paused), card)

    def _pass_on(self, call_id: str, decision: Decision) -> None:
        self.decided.emit(call_id, decision)
