"""The middle of the window: header, messages or greeting, composer. Main thread."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QSizePolicy, QStackedWidget, QWidget

from engine.stopping.record import TEMPLATE_SOURCE
from engine.wording import as_sentence
from ui.chat.composer.composer import Composer
from ui.chat.composer.picture_notice import PictureNotice
from ui.chat.composer.pictures import store_picture
from ui.chat.composer.presets import PresetOffers
from ui.chat.composer.writing import ContextBar, MessageSender, QueueCards
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.find_bar import FindBar, TextFinder
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.message_menu import MessageHandling
from ui.chat.messages.question_view import QuestionView
from ui.chat.model_switcher import ModelBadge
from ui.chat.problem_bar import DownloadProblemBar, MissingModelBar, ProblemBar
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.model_selection import ModelSelection
from ui.chat.session.workspace import Workspace
from ui.chat.settings_page import SettingsBasis, SettingsPage, settings_summary
from ui.chat.sides import SidesPage
from ui.chat.tools_page import ToolsPage
from ui.chat.transfer_bar import TransferBar
from ui.chat.welcome import SIDE_PX, Suggestion, Welcome
from ui.kit.buttons import IconButton, push_button
from ui.kit.dialogs import confirm_link, prompt_text
from ui.kit.fields import FileDrops, is_typed_text
from ui.kit.labels import ElidedLabel
from ui.kit.layouts import STRETCH, column, row
from ui.kit.motion import dissolve
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import HEAD_PX, current_theme
from ui.kit.windows import in_reading_order
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.store import Problem, query_terms
from ui.records.tool_calls import Decision
from ui.records.tool_choice import ToolsInUse, tools_button_texts
from ui.records.tool_servers import (
    PromptInfo,
    QuestionReply,
    ResourceInfo,
    ToolAnswer,
    ToolsRefused,
)
from ui.tools.toolbox import Toolbox
from ui.words import FileRefused

_KEEP_ONE = "Choose an answer to continue"
_WAIT = "Wait for the answer to finish, or press Esc to stop it."


def _resource_files(title: str, answer: ToolAnswer, folder: Path | None) -> list[Attachment]:
    """Return a server's text and pictures as files; stores the pictures, and blocks."""
    name = " ".join(title.split())
    text = [Attachment(name, answer.text)] if answer.text.strip() else []
    return [*text, *(store_picture(folder, name, data) for data in answer.pictures)]


class ChatHeader(QFrame):
    """Shows title and model; as high as the heads of the other columns."""

    def __init__(self, model: ModelSelection) -> None:
        super().__init__()
        self.setObjectName("chat_header")
        self.setFixedHeight(HEAD_PX)
        self.title = ElidedLabel("", "title", 1.08)
        self.sidebar = IconButton("sidebar", "Show or hide the conversations", keys="Ctrl+B")
        self.new = IconButton("plus", "New Chat", keys="Ctrl+N")  # while the sidebar is hidden
        self.new.hide()
        self.title.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.badge = ModelBadge(model)
        self.pane = IconButton("panel", "Show or hide the right pane", keys="Ctrl+I")
        row(
            self.sidebar,
            self.new,
            (self.title, 1),
            self.badge,
            self.pane,
            spacing=10,
            margins=(12, 0, 12, 0),
            on=self,
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.badge.show_compact(self.width() < 360)


class ToolsInChat(QObject):
    """The tools of the open conversation."""

    lost_changed = Signal(object)  # names of the failed servers
    facts_changed = Signal(object)  # ids of the kept facts

    def __init__(
        self,
        workspace: Workspace,
        toolbox: Toolbox,
        composer: Composer,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._toolbox = toolbox
        self._composer = composer
        self._dialogs_on = parent
        self._lost: frozenset[str] = frozenset()
        self.page = ToolsPage(toolbox, self)
        self.page.edited.connect(workspace.change_tools)
        self.page.resource_requested.connect(self._attach)
        self.page.prompt_requested.connect(self._ask_for_arguments)
        toolbox.changed.connect(self._refresh)
        toolbox.changed.connect(workspace.meter.recount)
        workspace.opened.connect(self._refresh)
        workspace.settings_changed.connect(self._refresh)
        workspace.model_selection.changed.connect(self._refresh)
        workspace.memory.changed.connect(lambda: self.facts_changed.emit(self._facts))
        for moved in (workspace.conversations.arranged, workspace.conversations.folders.changed):
            moved.connect(self._refresh)  # a folder may have no memory
        workspace.conversations.folders.changed.connect(workspace.meter.recount)
        self._refresh()

    @property
    def _facts(self) -> frozenset[str]:
        return frozenset(fact.id for fact in self._workspace.memory.facts)

    def follow_view(self, view: AnswerView, session: ConversationController | None = None) -> None:
        message = view.message
        session = session or self._workspace.current
        view.calls.replied.connect(partial(self._reply, session))
        view.calls.picture_requested.connect(view.picture_requested)
        view.calls.show_pictures(self._workspace.store.pictures_folder)
        view.calls.continue_requested.connect(partial(self._continue, session, message))
        view.calls.restart_requested.connect(self._restart)
        view.calls.cut_requested.connect(partial(session.cut_result, message))
        view.calls.show_lost(self._lost)
        self.lost_changed.connect(view.calls.show_lost)
        view.calls.show_facts(self._facts)
        self.facts_changed.connect(view.calls.show_facts)
        view.calls.forget_requested.connect(self._forget)

    def _reply(
        self, session: ConversationController, call_id: str, reply: Decision | QuestionReply
    ) -> None:
        """Pass a reply on, and focus the composer, because the buttons disappear."""
        session.reply(call_id, reply)
        self._composer.input.setFocus()

    def _continue(self, session: ConversationController, answer: ConversationMessage) -> None:
        session.continue_calls(answer)
        self._composer.input.setFocus()

    async def finish(self) -> None:
        await finish_tasks(self)

    def _forget(self, fact_id: str) -> None:
        self._workspace.memory.delete([fact_id])
        self._composer.input.setFocus()  # the button disappears

    def _restart(self, server: str) -> None:
        start_task(self, self._toolbox.restart(server), "restart an MCP server")
        self._composer.input.setFocus()  # the button disappears

    def _refresh(self) -> None:
        servers = self._toolbox.servers
        lost = frozenset(server.name for server in servers if server.stage == "failed")
        if lost != self._lost:
            self._lost = lost
            self.lost_changed.emit(lost)
        conversation = self._workspace.current.conversation
        info = self._workspace.model_selection.state.info
        can_call = info is None or info.can_call_tools
        choice = self._toolbox.choice_of(conversation) if can_call else ToolsInUse()
        self._composer.show_tools(*tools_button_texts(servers, choice))
        folder = self._workspace.memory.folder_without(conversation)
        self.page.show_choice(conversation.tools, can_call, folder)

    def _attach(self, resource: ResourceInfo) -> None:
        current = self._workspace.current.conversation
        start_task(self, self._read(resource, current), "read a resource")

    async def _read(self, resource: ResourceInfo, conversation: Conversation) -> None:
        row = self._composer.attachments
        try:
            answer = await self._toolbox.host.read_resource(resource.server, resource.uri)
            folder = self._workspace.store.pictures_folder
            files = await asyncio.to_thread(_resource_files, resource.title, answer, folder)
        except (ToolsRefused, FileRefused) as refused:
            row.refuse(str(refused))
            return
        if not files:
            row.refuse(f"{resource.title} is empty.")
        self._add(files, conversation)

    def _add(self, files: Iterable[Attachment], conversation: Conversation) -> None:
        row = self._composer.attachments
        for file in files:
            if conversation is self._workspace.current.conversation:
                row.add(file)
            else:
                row.read_for_another.emit(conversation, file)

    def _ask_for_arguments(self, prompt: PromptInfo, *values: str) -> None:
        """Ask the user for a prompt's arguments one by one, then get the prompt."""
        if len(values) == len(prompt.arguments):
            named = zip(prompt.arguments, values, strict=True)
            arguments = {argument.name: value for argument, value in named if value}
            current = self._workspace.current.conversation
            start_task(self, self._insert(prompt, arguments, current), "get a prompt")
            return
        target = prompt.arguments[len(values)]
        text = f"{target.name}: {target.description}" if target.description else target.name
        prompt_text(
            self._dialogs_on,
            prompt.title,
            text if target.is_required else f"{text} (optional)",
            lambda typed: self._ask_for_arguments(prompt, *values, typed),
            is_optional=not target.is_required,
        )

    async def _insert(
        self, prompt: PromptInfo, arguments: dict[str, str], conversation: Conversation
    ) -> None:
        ask = partial(self._toolbox.host.get_prompt, prompt.server, prompt.name)
        try:
            answer = await ask(arguments)
            folder, pictures = self._workspace.store.pictures_folder, replace(answer, text="")
            files = await asyncio.to_thread(_resource_files, prompt.title, pictures, folder)
        except (ToolsRefused, FileRefused) as refused:
            self._composer.attachments.refuse(str(refused))
            return
        self._add(files, conversation)
        before = conversation.draft.rstrip()
        draft = f"{before}\n\n{answer.text}" if before else answer.text
        if conversation is self._workspace.current.conversation:
            self._composer.set_text(draft)
            self._composer.input.setFocus()
        else:
            conversation.draft = draft
            self._workspace.conversations.changed(conversation)


class ChatPanel(QWidget):
    """Shows the open conversation and sends messages."""

    stops_requested = Signal()
    download_requested = Signal(str)  # repository

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.setObjectName("canvas")
        self._workspace = workspace
        self._opened: ConversationController | None = None
        self.header = ChatHeader(workspace.model_selection)
        self.problem = ProblemBar()
        self.problem.show_problem(workspace.store.problem)
        workspace.store.on_problem(self.problem.show_problem)
        self.choose_model = push_button("Choose Another…", "Choose another model")
        self.get_again = push_button("Download Again", "Download the damaged model again")
        self._model_failure: Problem | None = None
        self.model_problem = ProblemBar(self.get_again, self.choose_model)
        self.missing_model = MissingModelBar(workspace.model_selection)
        self.column = MessageColumn()
        self.welcome = Welcome(workspace.model_selection, workspace.library)
        downloads = workspace.library.downloads
        self.download_problem = DownloadProblemBar(downloads, self.welcome.first)
        self.find_bar = FindBar(TextFinder(workspace, self.column))
        self.composer = Composer()
        self.offers = PresetOffers(workspace.presets, self.composer, self)
        self.offers.chosen.connect(workspace.use_preset)
        self.settings = SettingsPage(workspace.presets)
        self.queue = QueueCards()
        self.context_bar = ContextBar()
        self.picture_notice = PictureNotice(workspace, self.composer)
        self.message_sender = MessageSender(
            workspace, self.composer, self.queue, self.context_bar, self
        )
        self.handling = MessageHandling(workspace, self.column, self.composer, self)
        self._drops = FileDrops(self)
        self.tools = ToolsInChat(workspace, workspace.toolbox, self.composer, self)
        self.messages = QStackedWidget(self)  # or two answers, or the greeting
        # In a low window it gives way: the parts of the message field would lie on each other.
        self.messages.setMinimumHeight(1)
        self._loading = QWidget()
        self.messages.addWidget(self._loading)
        self.messages.addWidget(self.welcome)
        self.messages.addWidget(self.column)
        self.sides = SidesPage()
        self.messages.addWidget(self.sides)
        self._lay_out()
        self._connect_signals()
        self._fit_composer()
        self._show(workspace.current)

    def focus_composer(self) -> None:
        self.composer.input.setFocus()

    def new_conversation(self) -> None:
        self._workspace.new_conversation()
        self.focus_composer()

    @property
    def messages_pane(self) -> QWidget:
        """The messages, or the suggestions of an empty chat."""
        is_empty = self.messages.currentWidget() is self.welcome
        return self.welcome.below if is_empty else self.messages

    def focus_messages(self) -> None:
        """Move the keyboard to the messages, or to the first thing to try in an empty chat."""
        is_column = self.messages.currentWidget() is self.column
        first = next(in_reading_order(self.messages_pane), None)
        target = self.column if is_column else first
        if target is not None:
            target.setFocus(Qt.FocusReason.OtherFocusReason)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the messages their room where the window is low."""
        super().resizeEvent(event)
        self.composer.input.limit_height(self.height() // 4)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """On Escape close the find bar, or else stop the answer; buttons of the header do not."""
        focused = QApplication.focusWidget()
        is_near = focused is not None and any(
            part.isAncestorOf(focused) for part in (self.messages, self.composer)
        )
        if event.key() == Qt.Key.Key_Escape and is_near and self.find_bar.isVisible():
            self.find_bar.put_away()
        elif event.key() == Qt.Key.Key_Escape and is_near and self._workspace.current.is_running:
            self.stop_answer()
        else:
            super().keyPressEvent(event)

    @property
    def last_answer_text(self) -> str:
        run = self._workspace.current.latest_run
        return "" if run is None else run.text

    def take_typing(self, event: QKeyEvent) -> bool:
        """Type a key that no field handles into the composer; return whether it was typed."""
        if not is_typed_text(event):
            return False
        self.focus_composer()
        QApplication.sendEvent(self.composer.input, event)
        return True

    def edit_last_question(self) -> None:
        current = self._workspace.current
        if current.sides:
            self.composer.show_notice(_KEEP_ONE)
            return
        if current.is_busy:
            self.composer.show_notice(_WAIT)
            return
        for message in reversed(current.conversation.messages):
            if message.role == "user":
                view = self.column.question_view(message)
                if view is not None:
                    view.begin_editing()
                return
        self.composer.show_notice("There is no question to edit yet.")

    def _settings_basis(self) -> SettingsBasis:
        model, listed = self._workspace.model_selection.state, self._workspace.conversations
        info, folder = model.info, model.folder
        saved = None if folder is None else self._workspace.library.choices.settings_of(folder)
        if info is None:
            return SettingsBasis(model.title, saved=saved, usual=listed.usual_settings)
        return SettingsBasis(
            model.title,
            dict(info.own_settings),
            info.context_length,
            info.can_think,
            any(token.source == TEMPLATE_SOURCE for token in info.eos),
            saved,
            listed.usual_settings,
        )

    def _keep_for_model(self, settings: ConversationSettings | None) -> None:
        folder = self._workspace.model_selection.state.folder
        if folder is not None:
            self._workspace.library.choices.keep_settings(folder, settings)
            self._refresh()

    def _lay_out(self) -> None:
        middle = self._middle = QWidget()
        # In a low window the parts around it give way: Send would be cut.
        for part in (self.messages, self.welcome.below):
            part.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
        column(
            row(STRETCH, (self.handling.undo_bar, 10_000), STRETCH),
            self.queue,
            self.welcome.offer,
            self.picture_notice,
            self.context_bar,
            self.composer,
            spacing=8,
            margins=(SIDE_PX, 16, SIDE_PX, 18),
            on=middle,
        )
        self._rows = column(
            self.header,
            self.problem,
            self.model_problem,
            self.download_problem,
            self.missing_model,
            self.find_bar,
            (self.messages, 1),
            row(STRETCH, (middle, 10_000), STRETCH),
            self.welcome.below,
            spacing=0,
            on=self,
        )
        self.transfer_bar = TransferBar(self._workspace, middle)

    def _connect_signals(self) -> None:
        workspace, composer = self._workspace, self.composer
        self.find_bar.closed.connect(self.focus_composer)
        workspace.opened.connect(self._show)
        workspace.opened.connect(self.download_problem.refresh)
        workspace.selection_changed.connect(self._refresh)
        workspace.run_shown.connect(self.column.show_run)
        workspace.settings_changed.connect(self._refresh)
        workspace.settings_changed.connect(self.column.show_prompt_begin)
        workspace.model_selection.changed.connect(self._refresh)
        workspace.models.changed.connect(self._show_model_problem)
        self.get_again.clicked.connect(self._get_again)
        workspace.conversations.renamed.connect(self._refresh)
        workspace.answering_changed.connect(self._refresh)
        workspace.stops_edited.connect(self._refresh)
        current_theme().changed.connect(self._fit_composer)
        workspace.files.recovered.connect(self.problem.show_problem)
        self.problem.recovery_requested.connect(workspace.files.recover)
        composer.stop_requested.connect(self.stop_answer)
        composer.thinking.clicked.connect(self._set_thinking)
        self.settings.edited.connect(workspace.change_settings)
        self.settings.kept.connect(self._keep_for_model)
        self.settings.presets.chosen.connect(workspace.use_preset)
        self.settings.presets.save_requested.connect(workspace.save_preset)
        self._drops.files_given.connect(composer.attachments.attach)
        self._drops.hovering.connect(composer.show_drop)
        self.welcome.suggestion_chosen.connect(self._try)
        self.column.jump.clicked.connect(self.focus_composer)
        self.column.view_made.connect(self._follow_view)
        self.column.position_changed.connect(workspace.conversations.changed)
        self.sides.view_made.connect(self._follow_side)
        workspace.message_requested.connect(self._show_found)
        workspace.search.changed.connect(self._forget_found)

    def _follow_view(self, view: QuestionView | AnswerView) -> None:
        message = view.message
        if isinstance(view, QuestionView):
            view.edited.connect(
                lambda text, files: self._ask(lambda current: current.edit(message, text, files))
            )
            view.left.connect(self.focus_composer)
        else:
            view.regenerate_requested.connect(
                lambda: self._ask(lambda current: current.regenerate(message))
            )
            view.proceed.clicked.connect(
                lambda: self._ask(lambda current: current.continue_answer(message))
            )
            self.tools.follow_view(view)
            run = view.run
            view.reason.clicked.connect(lambda: self._show_reason(run))
            view.text_view.link_chosen.connect(partial(confirm_link, self))
        view.action_row.version_stepped.connect(lambda step: self._show_version(message, step))

    def _follow_side(self, view: AnswerView, session: ConversationController) -> None:
        self.tools.follow_view(view, session)
        view.picture_requested.connect(partial(self.handling.show_picture, view))

    # After these the composer gets the focus: the button that was pressed is hidden or disabled.

    def _ask(self, begin: Callable[[ConversationController], Run | None]) -> None:
        self._workspace.ask(begin)
        self.focus_composer()

    def _show_version(self, message: ConversationMessage, step: int) -> None:
        self._workspace.show_version(message, step)
        self.focus_composer()

    def _show_found(self, message: ConversationMessage) -> None:
        current = self._workspace.current
        if message in current.conversation.messages:
            self.column.show_message(message, query_terms(self._workspace.search.query))
        else:
            self.composer.show_notice(_KEEP_ONE if current.sides else _WAIT)

    def _forget_found(self) -> None:
        if not self._workspace.search.is_active:
            self.column.forget_found()

    def _show(self, opened: ConversationController) -> None:
        if self._opened is not None:
            dissolve(self)
            self._opened.sides_changed.disconnect(self._show_sides)
        self._opened = opened
        self.message_sender.show_draft(opened)
        opened.sides_changed.connect(self._show_sides)
        self.column.show_conversation(opened)
        self.sides.show_sides(opened)
        self.column.show_run(opened.shown_run)
        self._refresh()

    def _refresh(self) -> None:
        current, model = self._workspace.current, self._workspace.model_selection.state
        conversation = current.conversation
        target = self._workspace.selected
        is_removed = self._workspace.conversations.row_of(conversation) < 0
        self.header.title.setText(target.title if is_removed else conversation.title)
        page: QWidget = self.column if conversation.messages else self.welcome
        if is_removed and target is not conversation:
            page = self._loading  # it was deleted, and the next one is still being read
        self._show_page(page if not current.sides else self.sides)
        is_demo_only = page is self.column and bool(self.welcome.after_demo.text())
        self.welcome.offer.setVisible(is_demo_only and not current.is_running)
        placeholder = {
            "none": "Load a model to start chatting",
            "loading": f"Message {model.title} (loading…)",
            "ready": f"Message {model.title}",
            "unloaded": f"Message {model.title}",
            "missing": "Choose a model to continue",
            "failed": "Choose a model to continue",
        }[model.stage]
        if model.is_stuck:
            placeholder = "The model is not responding"
        if current.sides:
            placeholder = _KEEP_ONE
        can_send = model.can_answer and not current.sides
        self.composer.show_stage(can_send, current.is_running, placeholder)
        self.composer.show_stops(len(conversation.enabled_stops()))
        info = model.info
        settings = conversation.settings
        self.composer.show_thinking(info is not None and info.can_think, settings.is_thinking)
        self.composer.show_settings(settings_summary(settings))
        self.settings.show_settings(self._settings_basis(), settings)

    def _show_page(self, page: QWidget) -> None:
        """Show the part above the composer, which an empty chat has at 40% of the height."""
        is_empty = page is self.welcome
        if self.messages.currentWidget() is self.welcome and not is_empty:
            dissolve(self)  # the message field moves down
        self.messages.setCurrentWidget(page)
        self.welcome.below.setVisible(is_empty)
        self._rows.setStretchFactor(self.messages, 2)
        self._rows.setStretchFactor(self.welcome.below, 3)

    def _fit_composer(self) -> None:
        self._middle.setMaximumWidth(current_theme().column_px() + 2 * SIDE_PX)

    def _show_sides(self) -> None:
        """Show both compared answers, or the messages once one answer was kept."""
        current = self._workspace.current
        self.sides.show_sides(current)
        if not current.sides:
            self.column.show_conversation(current)
            self.column.show_run(current.shown_run)
        self._refresh()

    def stop_answer(self) -> None:
        self._workspace.current.cancel()
        self.focus_composer()

    def _show_model_problem(self) -> None:
        """Show why a model could not be loaded, whichever conversation is open."""
        model = self._workspace.models
        problem = None
        if model.failure:
            folder = model.path if model.path is not None and model.path.exists() else None
            is_from_hub = bool(self._workspace.library.damaged_repository())
            self.get_again.setVisible(is_from_hub)
            folder = None if is_from_hub else folder
            problem = Problem(model.failure, as_sentence(model.message), folder)
        if problem != self._model_failure:  # a dismissed one stays dismissed
            self._model_failure = problem
            self.model_problem.show_problem(problem)

    def _get_again(self) -> None:
        self.model_problem.hide()
        self.focus_composer()
        self.download_requested.emit(self._workspace.library.damaged_repository())

    def _try(self, suggestion: Suggestion) -> None:
        if suggestion.stop:
            self._workspace.current.stops.ensure(suggestion.stop)
            self.stops_requested.emit()
        if self._workspace.send(suggestion.question):  # a draft stays in the composer
            self.focus_composer()

    def _show_reason(self, run: Run) -> None:
        self._workspace.show_run(run)
        self.stops_requested.emit()

    def _set_thinking(self, is_thinking: bool) -> None:
        settings: ConversationSettings = self._workspace.current.conversation.settings
        undo_text = "Turn On Thinking" if is_thinking else "Turn Off Thinking"
        self._workspace.change_settings(replace(settings, is_thinking=is_thinking), undo_text)
