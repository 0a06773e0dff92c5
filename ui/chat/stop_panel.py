"""The stop list, and why the shown answer ended. Main thread."""

from dataclasses import replace
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QWidget

from engine.stopping.record import StopKind
from engine.wording import counted
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.chat.verdict_view import VerdictView
from ui.kit.commands import Command, Entry, fill_menu
from ui.kit.following import Following
from ui.kit.labels import label, show_text
from ui.kit.layouts import BAR_PX, STRETCH, column, scrolling
from ui.kit.menus import escape_mnemonics
from ui.records.runs import Run
from ui.stops.stop_list_editor import EndTokens, StopListEditor
from ui.stops.stop_lists import DEFAULT_LIST, Stops, describe_list, list_title, model_list


class StopPanel(QFrame):
    """Follows the open conversation and the shown run."""

    requested = Signal()
    visibility_changed = Signal(bool)

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self._following = Following()
        self.editor = StopListEditor(workspace.stop_lists)
        self.editor.menu.use_list = workspace.use_stop_list
        fill_menu(self.editor.menu, self._beginning_entries())
        self.verdict = VerdictView(workspace.models)
        self.verdict.stop_source = self._stop_source
        self.end_tokens = EndTokens()
        self.verdict.inside.addWidget(self.end_tokens)
        self.source = label("", "muted", 0.93, is_wrapped=True)
        self._lay_out()
        self.editor.apply_now.clicked.connect(self._apply)
        self.end_tokens.added.connect(lambda token_id: self._set_end_token(token_id, True))
        self.end_tokens.removed.connect(lambda token_id: self._set_end_token(token_id, False))
        settings, model = workspace.settings_changed, workspace.model_selection.changed
        folders, presets = workspace.conversations.folders.changed, workspace.presets.changed
        for changed in (settings, model):
            changed.connect(self._show_model)
        for changed in (settings, workspace.answering_changed, workspace.stops_edited):
            changed.connect(self._offer_to_apply)
        lists, edited = workspace.stop_lists.changed, workspace.stops_edited
        for changed in (settings, model, folders, presets, lists, edited):
            changed.connect(self._show_source)
        workspace.opened.connect(self._show)
        workspace.run_shown.connect(self._show_run)
        self._show(workspace.current)
        self._show_model()

    def show_list(self) -> None:
        """Show the stop list, ready for another sequence."""
        self._show_part(self.editor.input)

    def show_rows(self) -> None:
        """Show the rows of the stop list, with the keyboard in them."""
        self._show_part(self.editor.table)

    def _show_part(self, part: QWidget) -> None:
        self.requested.emit()
        self._area.ensureWidgetVisible(part)
        part.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the verdict up to date: a hidden panel does not follow the run."""
        super().showEvent(event)
        self.verdict.follow()
        self._show_fired()
        self.visibility_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.visibility_changed.emit(False)

    def _lay_out(self) -> None:
        inner = column(
            self.verdict,
            self.editor,
            self.source,
            self.verdict.details,
            STRETCH,
            spacing=16,
            margins=(16, 16, 16 - BAR_PX, 16),
        )
        self._area = scrolling(inner, "Stop panel", self, goes_sideways=False, keeps_width=True)
        column(self._area, on=self)

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
            return escape_mnemonics(selection.state.title)

        return [
            None,
            Command(
                "Use for New Chats",
                lambda: self._begin_with(DEFAULT_LIST),
                checked=lambda: self._begins_with(DEFAULT_LIST),
            ),
            Command(
                "Use for New Chats with This Model",
                lambda: self._begin_with(self._model_list),
                title=lambda: f"Use for New Chats with {name()}",
                checked=lambda: self._begins_with(self._model_list),
                visible=lambda: bool(self._model_list),
            ),
            Command(
                "Remove List for This Model",
                lambda: self.editor.menu.delete_list(self._model_list),
                title=lambda: f"Remove List for {name()}",
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
        self.editor.undo_bar.offer(text, partial(lists.keep, key, before))

    def _show_source(self) -> None:
        """Say where the stop list came from, and whether it was changed since."""
        conversation = self._workspace.current.conversation
        name, stops = self._source(conversation.stops_from)
        text = f"From {name}" if name else ""
        if text and tuple(conversation.stops) != stops:
            text += ", changed here"
        own = self._own_list
        if own is not None and conversation.stops_from != self._model_list:
            model = self._workspace.model_selection.state.title
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
        self._show_fired()

    def _show_fired(self) -> None:
        run = self.verdict.run
        fired = None if run is None else run.stopped_by
        self._workspace.current.stops.show_fired(fired if isinstance(fired, str) else "")

    def _show_model(self) -> None:
        added = self._workspace.current.conversation.settings.stop_token_ids
        model = self._workspace.model_selection.state
        self.end_tokens.show_tokens(model.info, added, model.name)

    def _set_end_token(self, token_id: int, is_end: bool) -> None:
        settings = self._workspace.current.conversation.settings
        ids = [known for known in settings.stop_token_ids if known != token_id]
        ids += [token_id] if is_end else []
        undo_text = f"{'Add' if is_end else 'Remove'} End Token {token_id}"
        self._workspace.change_settings(replace(settings, stop_token_ids=tuple(ids)), undo_text)

    def _offer_to_apply(self) -> None:
        workspace = self._workspace
        can_apply = workspace.current.has_other_stops(workspace.model_selection.state.info)
        self.editor.apply_bar.setVisible(can_apply)

    def _apply(self) -> None:
        self._workspace.current.apply_stops()

    def _follow(self, run: Run, _text: str = "") -> None:
        if run is self.verdict.run and self.isVisible():
            self.verdict.follow()
            self._show_fired()
