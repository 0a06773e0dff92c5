"""Connects the Tools button of the composer, its card, and the tool servers. Main thread."""

from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from ui.chat.composing.card import Card
from ui.chat.composing.composer import Composer
from ui.chat.composing.tools_popover import ToolsPopover
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.workspace import Workspace
from ui.kit.background.tasks import Tasks
from ui.kit.look.theme import Theme
from ui.kit.system.boxes import ask_text
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.tools import Decision, PromptInfo, ResourceInfo
from ui.tools.server_words import chip_words
from ui.tools.tool_host import ToolsRefused
from ui.tools.toolbox import Toolbox


class ToolsInChat(QObject):
    """The tools of the open conversation.

    Signals:
        servers_wanted: A person wants to see the window of tool servers.
    """

    servers_wanted = Signal()

    def __init__(
        self,
        theme: Theme,
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
        self._tasks = Tasks()
        self._theme = theme
        self._card = Card(theme, self._make_popover, self)
        composer.tools.clicked.connect(self.pop_up)
        toolbox.changed.connect(self._refresh)
        toolbox.changed.connect(workspace.meter.recount)
        workspace.opened.connect(self._refresh)
        workspace.settings.changed.connect(self._refresh)
        self._refresh()

    @property
    def popover(self) -> ToolsPopover:
        """The card with the tools."""
        return self._card.content

    def _make_popover(self) -> ToolsPopover:
        popover = ToolsPopover(self._theme, self._dialogs_on, self._toolbox, self._tasks)
        popover.edited.connect(self._workspace.settings.change_tools)
        popover.servers_wanted.connect(self.servers_wanted)
        popover.resource_wanted.connect(self._attach)
        popover.prompt_wanted.connect(self._ask_for_arguments)
        return popover

    def pop_up(self) -> None:
        """Show the card above its button."""
        info = self._workspace.answering.info
        can_call = info is None or info.can_call_tools
        self.popover.show_choice(self._workspace.current.conversation.tools, can_call)
        self.popover.pop_up(self._composer.tools)

    def follow_view(self, view: AnswerView) -> None:
        """Connect the cards of an answer's calls with their actions."""
        message = view.message
        view.calls.decided.connect(self._decide)
        view.calls.continue_wanted.connect(lambda: self._continue(message))

    def _decide(self, call_id: str, decision: Decision) -> None:
        """Allow or deny a call, and focus the composer, because the buttons disappear."""
        self._workspace.current.session.decide(call_id, decision)
        self._composer.input.setFocus()

    def _continue(self, answer: ConversationMessage) -> None:
        self._workspace.current.session.continue_calls(answer)
        self._composer.input.setFocus()

    async def finish(self) -> None:
        """Wait until servers have started and resources are read."""
        await self._tasks.finish()

    def _refresh(self) -> None:
        choice = self._workspace.current.conversation.tools
        self._composer.show_tools(*chip_words(self._toolbox.servers, choice))

    def _attach(self, resource: ResourceInfo) -> None:
        self._tasks.start(self._read(resource), "read a resource")

    async def _read(self, resource: ResourceInfo) -> None:
        row = self._composer.attachments
        try:
            text = await self._toolbox.host.read_resource(resource.server, resource.uri)
        except ToolsRefused as refused:
            row.refuse(str(refused))
            return
        if text.strip():
            row.add(Attachment(" ".join(resource.title.split()), text))
        else:
            row.refuse(f"{resource.title} is empty.")

    def _ask_for_arguments(
        self, prompt: PromptInfo, known: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Ask the person for a prompt's arguments one by one, then get the prompt."""
        if len(known) < len(prompt.arguments):
            wanted = prompt.arguments[len(known)]
            words = f"{wanted.name}: {wanted.description}" if wanted.description else wanted.name
            optional = "" if wanted.is_required else " (may be left empty)"
            left_out = (*known, ("", ""))
            dialog = ask_text(
                self._dialogs_on,
                prompt.title,
                f"{words}{optional}",
                lambda typed: self._ask_for_arguments(prompt, (*known, (wanted.name, typed))),
            )
            if not wanted.is_required:
                dialog.textValueSelected.connect(
                    lambda typed: self._leave_out(prompt, left_out, typed)
                )
            return
        arguments = {name: value for name, value in known if name}
        self._tasks.start(self._insert(prompt, arguments), "get a prompt")

    def _leave_out(
        self, prompt: PromptInfo, known: tuple[tuple[str, str], ...], typed: str
    ) -> None:
        if not typed.strip():
            self._ask_for_arguments(prompt, known)

    async def _insert(self, prompt: PromptInfo, arguments: dict[str, str]) -> None:
        ask = partial(self._toolbox.host.prompt_text, prompt.server, prompt.name)
        try:
            text = await ask(arguments)
        except ToolsRefused as refused:
            self._composer.attachments.refuse(str(refused))
            return
        before = self._composer.text.rstrip()
        self._composer.set_text(f"{before}\n\n{text}" if before else text)
        self._composer.input.setFocus()
