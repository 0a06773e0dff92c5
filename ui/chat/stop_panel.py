"""The dock at the right: the stop list and why the shown answer ended. Main thread."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QShowEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QMainWindow,
    QVBoxLayout,
    QWidget,
)

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopScope
from engine.values.events import Finished, tokens_per_s
from engine.values.figures import end_facts, has_counts
from engine.wording import counted, figure, quoted, seconds, visible
from ui.chat.messages.stop_selection import StopSelection, source_between
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import IconBadge, IconButton, push_button
from ui.kit.commands import Command, Entry, fill_menu
from ui.kit.flow_text import FlowText
from ui.kit.following import Following
from ui.kit.html import colored, element, joined
from ui.kit.labels import FactTable, FigureTile, clear_layout_of, label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_from, escape_mnemonics
from ui.kit.theme import HEAD_PX, current_theme, fixed_font
from ui.models.models import Models
from ui.records.run_report import markdown_report
from ui.records.runs import Run, progress_label
from ui.stops.stop_list_editor import StopListEditor
from ui.stops.stop_lists import DEFAULT_LIST, Stops, describe_list, list_title, model_list
from ui.words import Tone

# The figures that the tiles show.
_IN_TILES = ("Speed", "First token")
WIDTH_PX = 366
_ALWAYS = "Always Stop Here"
# How much of an answer's end, and of what a stop cut off, is shown.
_TAIL_CHARS, _CUT_CHARS = 60, 240


def verdict_text(run: Run | None, models: Models) -> tuple[str, Tone, str, str]:
    """Return icon, tone, sentence and detail for a run in any state, or for none."""
    if run is None:
        match models.stage:
            case "loading":
                detail = "Answers and their reasons appear here."
                return "clock", "busy", f"{models.name} is loading", detail
            case "failed":
                return "fault", "fault", f"{models.name} could not be loaded", models.message
            case "none":
                return "chat", "quiet", "No model is loaded", "Open a model folder to begin."
            case _:
                detail = "When an answer ends, the reason appears here."
                return "stop-match", "quiet", "No answer yet", detail
    if run.state == "refused":
        return "fault", "fault", "This message was not sent to the model.", run.refusal
    if (verdict := run.verdict) is not None:
        return verdict.icon, verdict.tone, verdict.text.sentence, verdict.text.detail
    watched = ", ".join(quoted(stop, 16) for stop in run.stops)
    detail = f"Watching for {watched}." if watched else "This answer has no stop sequences."
    if run.state == "streaming":
        detail = f"{counted(len(run.text), 'character')} so far. {detail}"
    return "clock", "busy", progress_label(run), detail


class VerdictView(QWidget):
    """Shows one run, live while it streams.

    Attributes:
        stop_source: Returns where the stop that ended a run came from; empty for unknown.
    """

    stop_requested = Signal(object)  # StopSelection

    def __init__(self, model: Models) -> None:
        super().__init__()
        self._model = model
        self.stop_source: Callable[[Run], str] = lambda _: ""
        self.run: Run | None = None
        self._shown_end: Finished | None = None
        self._question = ""
        self._badge = IconBadge(38)
        self.sentence = label("", "title", 1.08, is_wrapped=True)
        self.detail = label("", "muted", 0.96, is_wrapped=True)
        self._bar = thin_bar("Progress")
        self.tail = FlowText()
        # A text with links loses its selection when the focus leaves it by keyboard.
        self.tail.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.tail.setFont(fixed_font(self.font(), 0.98))
        self.tail.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._selection_actions = [QAction(text, self.tail) for text in ("Copy", _ALWAYS)]
        self.tail.addActions(self._selection_actions)
        self._tail_source, self._tail_begin = "", 0
        self.always = push_button(_ALWAYS, "Add the selected text to the stop list", kind="link")
        self._tail_card = QFrame()
        self._tiles = [FigureTile(name) for name in ("Tokens", "Tokens/s", "First token")]
        self._tiles_row = QWidget()
        self._facts = QWidget()
        QVBoxLayout(self._facts).setContentsMargins(0, 0, 0, 0)
        self.copy_report = push_button("Copy Report", "Copy a report of this run as Markdown")
        self.inspect = push_button("Inspect…", "Open this run in the Stop Inspector")
        self.always.setProperty("is_flush", True)
        self._lay_out()
        self.copy_report.clicked.connect(self._copy)
        self.always.clicked.connect(self._request_stop)
        for action, run_it in zip(
            self._selection_actions, (self.tail.copy, self._request_stop), strict=True
        ):
            action.triggered.connect(lambda _=False, run_it=run_it: run_it())
        self.tail.selectionChanged.connect(self._refresh_always)
        current_theme().changed.connect(self.refresh)
        model.changed.connect(self._follow_model)
        self.refresh()

    def show_run(self, run: Run | None, question: str = "") -> None:
        is_other = run is not self.run
        self.run, self._question = run, question
        if is_other:
            self.refresh()
        else:
            self.follow()

    def follow(self) -> None:
        """Show the run's progress. A shown end stays: tool calls may continue the answer."""
        run = self.run
        if run is None or run.finished is None or run.finished is not self._shown_end:
            self.refresh()

    def refresh(self) -> None:
        run = self.run
        finished = self._shown_end = None if run is None else run.finished
        facts = FactTable(fixed_font(self.font(), 0.92))
        for part in (self._bar, self._tail_card, self._tiles_row):
            part.hide()
        self.copy_report.setVisible(run is not None and run.is_over)
        self.inspect.setVisible(run is not None)
        self._show_text(*verdict_text(run, self._model))
        if run is None or run.state == "refused":
            pass
        elif run.verdict is None:
            if run.state == "prefill" and run.prompt_total:
                self._bar.setRange(0, run.prompt_total)
                self._bar.setValue(run.prompt_processed)
                self._bar.show()
        elif finished is not None:
            self._show_tail(run, finished)
            self._show_figures(run, finished, facts)
        elif run.state != "unrecorded":
            self._show_circumstances(run, facts)
        elif run.model_id:
            facts.add("Model", run.model_id)
        self._arrange(facts)

    def _show_tail(self, run: Run, finished: Finished) -> None:
        stop = finished.stop
        source = run.thinking if stop.channel is Channel.THINKING else run.text
        tail, cut = source[-_TAIL_CHARS:], stop.dropped[:_CUT_CHARS]
        if not tail and not cut:
            return
        colors = current_theme().colors
        dots = "…" if len(source) > _TAIL_CHARS else ""
        html = [colored(f"{dots}{visible(tail)}", colors.text)]
        if cut:
            more = "…" if len(stop.dropped) > _CUT_CHARS else ""
            html.append(colored(element("s", visible(cut) + more), colors.fault, colors.fault_soft))
        self._tail_source, self._tail_begin = tail + cut, len(dots)
        self.tail.setHtml(joined(*html))
        self._refresh_always()
        cut_text = f", then cut off: {stop.dropped}" if cut else ""
        self.tail.setAccessibleName(f"The answer ended with: {tail}{cut_text}")
        self._tail_card.show()

    def _refresh_always(self) -> None:
        has_selection = self.tail.textCursor().hasSelection()
        self.always.setEnabled(has_selection)
        for action in self._selection_actions:
            action.setEnabled(has_selection)
        reason = "" if has_selection else "Select the text at which answers stop first."
        self.always.setToolTip(reason)
        self.always.setAccessibleDescription(reason)

    @property
    def selection(self) -> StopSelection | None:
        """The selected end of the answer as the model wrote it; None for nothing."""
        run, cursor = self.run, self.tail.textCursor()
        if run is None or run.finished is None or not cursor.hasSelection():
            return None
        begin, end = (
            position - self._tail_begin
            for position in (cursor.selectionStart(), cursor.selectionEnd())
        )
        is_thinking = run.finished.stop.channel is Channel.THINKING
        scope = StopScope.TEXT_AND_THINKING if is_thinking else StopScope.TEXT
        return StopSelection(source_between(self._tail_source, begin, end), scope)

    def _request_stop(self) -> None:
        if (selection := self.selection) is not None:
            self.stop_requested.emit(selection)

    def _show_figures(self, run: Run, finished: Finished, facts: FactTable) -> None:
        usage, timing = finished.usage, finished.timing
        speed = tokens_per_s(usage, timing)
        first = timing.first_token_s
        self._tiles[0].show_value(f"{usage.output_tokens:,}" if has_counts(finished) else "–")
        self._tiles[1].show_value("–" if speed is None else figure(speed))
        self._tiles[2].show_value("–" if first is None else seconds(first))
        self._tiles_row.show()
        for fact in end_facts(finished, run.context):
            if fact.name in _IN_TILES:
                continue
            if fact.is_cut and fact.text:
                facts.add_struck(fact.name, visible(fact.text))
            else:
                value = "  ".join(filter(None, (visible(fact.text), fact.value)))
                facts.add(fact.name, value, is_code=bool(fact.text))
            if fact.name == "Matched" and (source := self.stop_source(run)):
                facts.add("Stop set by", source)
        self._show_circumstances(run, facts)

    def _show_circumstances(self, run: Run, facts: FactTable) -> None:
        """Show the facts from before the end: the stop list, tools, the model."""
        if run.continued_chars:
            earlier = counted(run.continued_chars, "character")
            facts.add("Continues", f"an earlier answer of {earlier}")
        stops = "  ".join(visible(stop) for stop in run.stops)
        facts.add("Stop list", stops or "none", is_code=bool(stops))
        for call in run.tool_calls:
            facts.add("Tool call", f"{call.name}({call.arguments})")
        facts.add("Model", run.model_id)

    # -- pieces ----------------------------------------------------------------------------

    def _show_text(self, icon: str, tone: Tone, sentence: str, detail: str) -> None:
        self._badge.show_icon(icon, tone)
        self.sentence.setText(sentence)
        show_text(self.detail, detail)

    def _follow_model(self) -> None:
        if self.run is None:
            self.refresh()

    def _arrange(self, facts: FactTable) -> None:
        """Show the facts in the place of earlier ones, at once: Qt would do it a frame later."""
        clear_layout_of(self._facts)
        layout = self._facts.layout()
        assert layout is not None
        layout.addWidget(facts)
        facts.show()

    def _lay_out(self) -> None:
        head = row(
            (self._badge, 0, Qt.AlignmentFlag.AlignTop),
            (column(self.sentence, self.detail, STRETCH, spacing=3), 1),
            spacing=11,
        )
        self._tail_card.setObjectName("sunken")
        column(
            label("Where it ended", "muted", 0.88),
            self.tail,
            (self.always, 0, Qt.AlignmentFlag.AlignLeft),
            spacing=4,
            margins=(11, 8, 11, 9),
            on=self._tail_card,
        )
        tiles = row(spacing=8, on=self._tiles_row)
        for tile in self._tiles:
            tiles.addWidget(tile, 1)
        column(
            row(
                label("Why it stopped", "title"),
                STRETCH,
                self.inspect,
                self.copy_report,
            ),
            head,
            self._bar,
            self._tail_card,
            self._tiles_row,
            self._facts,
            STRETCH,
            spacing=11,
            on=self,
        )

    def _copy(self) -> None:
        if self.run is not None:
            copy_from(self.copy_report, markdown_report(self.run, self._question))


class StopPanel(QDockWidget):
    """Follows the open conversation and the shown run; can be closed and detached."""

    stop_requested = Signal(object)  # StopSelection
    undoable = Signal(str, object)  # sentence, and the function that undoes it

    def __init__(self, workspace: Workspace, window: QMainWindow) -> None:
        super().__init__("Stops", window)
        self.setObjectName("stop_dock")
        self._workspace = workspace
        self._following = Following()
        self.editor = StopListEditor(workspace.stop_lists)
        self.editor.menu.use_list = workspace.use_stop_list
        self.editor.menu.undoable.connect(self.undoable)
        fill_menu(self.editor.menu, self._beginning_entries())
        self.verdict = VerdictView(workspace.models)
        self.verdict.stop_source = self._stop_source
        self.verdict.stop_requested.connect(self.stop_requested)
        self.source = label("", "muted", 0.93, is_wrapped=True)
        self.setTitleBarWidget(self._build_title())
        self.setWidget(self._build_content())
        self.setAllowedAreas(
            Qt.DockWidgetArea.RightDockWidgetArea | Qt.DockWidgetArea.LeftDockWidgetArea
        )
        self.editor.apply_now.clicked.connect(self._apply)
        self.editor.end_tokens.added.connect(lambda token_id: self._set_end_token(token_id, True))
        self.editor.end_tokens.removed.connect(
            lambda token_id: self._set_end_token(token_id, False)
        )
        workspace.settings_changed.connect(self._show_model)
        workspace.settings_changed.connect(self._offer_to_apply)
        workspace.answering_changed.connect(self._offer_to_apply)
        workspace.stops_edited.connect(self._offer_to_apply)
        workspace.stops_edited.connect(self._show_source)
        workspace.conversations.folders.changed.connect(self._show_source)
        workspace.presets.changed.connect(self._show_source)
        workspace.settings_changed.connect(self._show_source)
        workspace.stop_lists.changed.connect(self._show_source)
        workspace.opened.connect(self._show)
        workspace.run_shown.connect(self._show_run)
        workspace.model_selection.changed.connect(self._show_model)
        self._show(workspace.current)
        self._show_model()

    def show_list(self) -> None:
        """Show the stop list, ready for another sequence."""
        self._show_part(self.editor.input)

    def show_rows(self) -> None:
        """Show the rows of the stop list, with the keyboard in them."""
        self._show_part(self.editor.table)

    def _show_part(self, part: QWidget) -> None:
        self.show()
        self.raise_()
        self._area.ensureWidgetVisible(part)
        part.setFocus()
        if self.isFloating():
            self.activateWindow()

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the verdict up to date: a hidden panel does not follow the run."""
        super().showEvent(event)
        self.verdict.follow()

    def _build_title(self) -> QWidget:
        bar = QFrame()
        bar.setObjectName("dock_title")
        detach = IconButton("detach", "Detach / Attach")
        close = IconButton("close", "Close the stop panel", keys="Ctrl+I")
        detach.clicked.connect(lambda: self.setFloating(not self.isFloating()))
        close.clicked.connect(self.close)
        line = row(
            label("Stops", "title", 1.08),
            STRETCH,
            detach,
            close,
            spacing=2,
            margins=(16, 0, 8, 0),
            on=bar,
        )
        line.addStrut(HEAD_PX)  # a dock asks only for the title's size hint
        return bar

    def _build_content(self) -> QWidget:
        line = QFrame()
        line.setFixedHeight(1)
        line.setStyleSheet("background: palette(mid);")
        inner = column(
            self.source,
            self.editor,
            line,
            (self.verdict, 1),
            spacing=16,
            margins=(16, 14, 16, 18),
        )
        frame = QFrame()
        frame.setObjectName("stop_panel")
        frame.setMinimumWidth(WIDTH_PX)
        self._area = scrolling(inner, "Stop panel", frame, goes_sideways=False)
        column(self._area, on=frame)
        return frame

    def _show(self, opened: ConversationController) -> None:
        signals = (opened.run_changed, opened.run_finished, opened.text_appended)
        self._following.follow(*((signal, self._follow) for signal in signals))
        self.editor.show_model(opened.stops)
        self._show_model()
        self._offer_to_apply()
        self._show_source()
        self._show_run(opened.shown_run)

    def _beginning_entries(self) -> list[Entry]:
        """Return the entries of the lists that new conversations begin with."""
        selection = self._workspace.model_selection

        def name() -> str:
            return escape_mnemonics(selection.state.name)

        return [
            None,
            Command(
                "Use for New Chats",
                lambda: self._begin_with(DEFAULT_LIST),
                checked=lambda: self._begins_with(DEFAULT_LIST),
            ),
            Command(
                "Use for New Chats with the Model",
                lambda: self._begin_with(self._model_list),
                title=lambda: f"Use for New Chats with {name()}",
                checked=lambda: self._begins_with(self._model_list),
                visible=lambda: bool(self._model_list),
            ),
            Command(
                "Remove the List for the Model",
                lambda: self.editor.menu.saved.delete(self._model_list),
                title=lambda: f"Remove the List for {name()}",
                visible=lambda: self._own_list is not None,
            ),
        ]

    @property
    def _model_list(self) -> str:
        """The key of the list for the conversation's model; empty without a model."""
        folder = self._workspace.model_selection.state.folder
        return "" if folder is None else model_list(folder)

    @property
    def _own_list(self) -> Stops | None:
        """The list for the conversation's model."""
        key = self._model_list
        return self._workspace.stop_lists.get(key) if key else None

    def _begins_with(self, key: str) -> bool:
        stops = self._workspace.stop_lists.get(key) if key else None
        return stops is not None and stops == tuple(self._workspace.current.stops.entries())

    def _begin_with(self, key: str) -> None:
        lists, stops = self._workspace.stop_lists, self._workspace.current.stops.entries()
        before = lists.get(key)
        lists.keep(key, stops)
        chats = list_title(key).replace("Chats", "chats", 1)
        text = f"{chats} begin with this list of {counted(len(stops), 'sequence')}"
        self.undoable.emit(text, partial(lists.keep, key, before))

    def _show_source(self) -> None:
        """Say where the stop list came from, and whether it was changed since."""
        conversation = self._workspace.current.conversation
        name, stops = self._source(conversation.stops_from)
        text = f"From {name}" if name else ""
        if text and tuple(conversation.stops) != stops:
            text += ", changed here"
        own = self._own_list
        if own is not None and conversation.stops_from != self._model_list:
            model = self._workspace.model_selection.state.name
            note = f"New chats with {model} begin with a list of {counted(len(own), 'sequence')}."
            text = "\n".join(filter(None, (text, note)))
        show_text(self.source, text)

    def _source(self, stops_from: str) -> tuple[str, Stops]:
        """Return the name and the rows of the source of a list; empty for none."""
        kind, _, name = stops_from.partition(":")
        workspace = self._workspace
        if kind == "preset" and (preset := workspace.presets.get(name)) is not None:
            return f"the preset “{preset.name}”", preset.stops
        if kind == "folder" and (folder := workspace.conversations.folders.get(name)) is not None:
            return f"the folder “{folder.name}”", folder.stops
        stops = workspace.stop_lists.get(stops_from)
        return ("", ()) if stops is None else (describe_list(stops_from), stops)

    def _stop_source(self, run: Run) -> str:
        """Return where the stop string that ended a run came from; empty for another end."""
        end = run.finished
        if end is None or end.stop.kind is not StopKind.STOP_STRING:
            return ""
        if not run.is_own:
            return "the request"
        if run.stop_change.extra == end.stop.value:
            return "this question"
        name, stops = self._source(run.stops_from)
        is_there = any(entry.stop.text == end.stop.value for entry in stops)
        return name if name and is_there else "this conversation"

    def _show_run(self, run: Run | None) -> None:
        question = ""
        for message in self._workspace.current.conversation.messages:
            if message.role == "user":
                question = message.text
            elif message.run is run:
                break
        self.verdict.show_run(run, question)

    def _show_model(self) -> None:
        added = self._workspace.current.conversation.settings.stop_token_ids
        model = self._workspace.model_selection.state
        self.editor.end_tokens.show_tokens(model.info, added, model.name)

    def _set_end_token(self, token_id: int, is_end: bool) -> None:
        settings = self._workspace.current.conversation.settings
        ids = [known for known in settings.stop_token_ids if known != token_id]
        ids += [token_id] if is_end else []
        self._workspace.change_settings(replace(settings, stop_token_ids=tuple(ids)))

    def _offer_to_apply(self) -> None:
        workspace = self._workspace
        can_apply = workspace.current.has_other_stops(workspace.model_selection.state.info)
        self.editor.offer_to_apply(can_apply)

    def _apply(self) -> None:
        self._workspace.current.apply_stops()

    def _follow(self, run: Run, _text: str = "") -> None:
        if run is self.verdict.run and self.isVisible():
            self.verdict.follow()
