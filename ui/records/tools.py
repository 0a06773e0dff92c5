"""Tools as the window knows them: their servers, what a conversation may use, calls and results.

https://modelcontextprotocol.io describes what servers offer. Plain values; any thread.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from engine import Tool, ToolCall, counted
from engine.files.json_fields import Fields
from ui.records.attachments import (
    Attachment,
    attachment_from,
    attachment_values,
    cut_text,
    cut_words,
)


@dataclass(frozen=True, slots=True)
class NamedValue:
    """An environment variable of a program, or a header of the requests to an address.

    Attributes:
        name: Its name.
        value: Its value; empty for a secret, whose value is kept elsewhere.
        is_secret: Whether its value is kept in the keychain and never shown.
    """

    name: str
    value: str = ""
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class ToolServerConfig:
    """How a server is reached: a program that is started, or an address.

    Attributes:
        name: Its unique name.
        command: The program; empty for a server with an address.
        args: Its arguments.
        env: Its environment variables, besides the usual ones.
        cwd: The folder that it runs in; empty for the home folder.
        url: The address of a server that runs already; empty for a program.
        headers: Sent with each request to the address.
        is_sse: Whether the address speaks MCP's older way, HTTP with SSE.
        is_on: Whether a person has switched it on. A server that is off never runs.
        extra: Fields of other apps; they are kept unchanged, and never used.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    cwd: str = ""
    url: str = ""
    headers: tuple[NamedValue, ...] = ()
    is_sse: bool = False
    is_on: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_program(self) -> bool:
        """Whether it is a program that is started here."""
        return not self.url

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secret values, each after its kind."""
        kinds = (("env", self.env), ("header", self.headers))
        return tuple(
            f"{kind}/{setting.name}"
            for kind, all_ in kinds
            for setting in all_
            if setting.is_secret
        )

    @property
    def words(self) -> str:
        """The program with its arguments, or the address."""
        return self.url or " ".join((self.command, *self.args))


class ServerStage(StrEnum):
    """The state of a server.

    ``STOPPED`` ones are switched on, and start when they are needed. ``RESTARTING`` ones died, and
    are started again soon; ``FAILED`` ones wait for a person.
    """

    OFF = "off"
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool of a server.

    Attributes:
        server: The server's name.
        name: Its name on the server.
        title: Its name without control characters, for a person.
        description: What it does, in the server's words.
        parameters: JSON Schema of its arguments.
        fingerprint: Changes with the server's program or address and with the tool's own
            description. An approval counts for one fingerprint.
    """

    server: str
    name: str
    title: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Identifies it among all tools."""
        return self.server, self.name


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A resource that a server offers to read, such as a file.

    Attributes:
        server: The server's name.
        uri: Its address within the server.
        title: Its name, for a person.
    """

    server: str
    uri: str
    title: str


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument of a prompt.

    Attributes:
        name: Its name.
        description: What it means, in the server's words.
        is_required: Whether the prompt needs it.
    """

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt that a server offers.

    Attributes:
        server: The server's name.
        name: Its name on the server.
        title: Its name, for a person.
        arguments: Its arguments.
    """

    server: str
    name: str
    title: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server at one moment.

    Attributes:
        config: How it is reached; without the values of secrets.
        stage: Its stage.
        problem: Why it failed or died, as whole sentences; empty if it did not.
        tools: The tools that the model may call.
        resources: The resources that can be read and attached.
        prompts: The prompts that it offers.
        remarks: What was left out of these lists, and why, as whole sentences.
        log: The last lines that it wrote for people, oldest first.
        version: The name and version that it reports, once it has done so.
        wants_sign_in: Whether it failed because a person has to sign in.
    """

    config: ToolServerConfig
    stage: ServerStage = ServerStage.OFF
    problem: str = ""
    tools: tuple[ToolInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    remarks: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    version: str = ""
    wants_sign_in: bool = False

    @property
    def name(self) -> str:
        """The server's name."""
        return self.config.name


# The tools that a conversation may use. The choice belongs to it on this computer: no exported file
# contains it, so that only tools run that this person has switched on.

Approval = tuple[str, str, str]
"""Server, tool and fingerprint of a tool that may run without asking."""


def approval_of(tool: ToolInfo) -> Approval:
    """Return the approval of a tool, as it is kept."""
    return tool.server, tool.name, tool.fingerprint


@dataclass(frozen=True, slots=True)
class ToolsInUse:
    """The tool servers of a conversation.

    Attributes:
        servers: The names of the servers that are on.
        without: The tools of these servers that are off, as (server, tool).
        approved: The tools that may run without asking in this conversation.
    """

    servers: tuple[str, ...] = ()
    without: tuple[tuple[str, str], ...] = ()
    approved: tuple[Approval, ...] = ()

    def with_server(self, name: str, is_on: bool) -> "ToolsInUse":
        """Return a copy with a server on or off; switching it off removes its approvals."""
        others = tuple(server for server in self.servers if server != name)
        if is_on:
            return replace(self, servers=(*others, name))
        kept = tuple(approval for approval in self.approved if approval[0] != name)
        return replace(self, servers=others, approved=kept)

    def with_tool(self, tool: ToolInfo, is_on: bool) -> "ToolsInUse":
        """Return a copy with one tool on or off; switching it off removes its approval."""
        others = tuple(tool_key for tool_key in self.without if tool_key != tool.key)
        if is_on:
            return replace(self, without=others)
        return replace(self.without_approval(tool), without=(*others, tool.key))

    def with_approval(self, approval: Approval) -> "ToolsInUse":
        """Return a copy with one more tool that may run without asking."""
        others = tuple(other for other in self.approved if other[:2] != approval[:2])
        return replace(self, approved=(*others, approval))

    def without_approval(self, tool: ToolInfo) -> "ToolsInUse":
        """Return a copy without the approval of a tool."""
        return replace(
            self, approved=tuple(approval for approval in self.approved if approval[:2] != tool.key)
        )

    def uses(self, tool: ToolInfo) -> bool:
        """Return whether the model may call a tool."""
        return tool.server in self.servers and tool.key not in self.without


def choice_values(choice: ToolsInUse) -> dict[str, Any]:
    """Return a conversation's tools as JSON values; empty if it has none."""
    values = {
        "servers": list(choice.servers),
        "without": [list(tool_key) for tool_key in choice.without],
        "approved": [list(approval) for approval in choice.approved],
    }
    return {name: value for name, value in values.items() if value}


def choice_from(fields: Fields) -> ToolsInUse:
    """Return a conversation's tools; invalid entries are left out.

    Raises:
        DamagedFile: A value has a wrong type.
    """
    return ToolsInUse(
        tuple(name for name in fields.maybe("servers", list) or () if isinstance(name, str)),
        tuple(_texts(fields.maybe("without", list) or (), 2)),
        tuple(_texts(fields.maybe("approved", list) or (), 3)),
    )


def _texts(values: Iterable[Any], count: int) -> Iterable[Any]:
    """Yield the values that are lists of ``count`` texts."""
    for value in values:
        if (
            isinstance(value, list)
            and len(value) == count
            and all(isinstance(t, str) for t in value)
        ):
            yield tuple(value)


# Calls and their results, which are kept with the answer.


class CallState(StrEnum):
    """How a call ended: the person refused ``DENIED`` calls, and stopped ``CANCELLED`` ones."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a server answered to a call.

    Attributes:
        text: Its whole text.
        is_error: Whether the tool reports an error.
        pictures: The contents of its pictures.
    """

    text: str
    is_error: bool = False
    pictures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionField:
    """A field of a server's form.

    Attributes:
        name: Its name in the answer.
        title: Its name, for a person.
        says: What it means, in the server's words.
        kind: What is typed or chosen: a text, a number, a whole number, yes or no, one or several
            of the choices.
        is_required: Whether the server needs it.
        choices: The values that can be chosen, each with its words.
        default: The value that the server proposes; of any type.
        least: The least number, the fewest characters or choices; None for any.
        most: The greatest number, the most characters or choices; None for any.
        form: What a text has to be: ``email``, ``uri``, ``date`` or ``date-time``; empty for any.
    """

    name: str
    title: str
    says: str = ""
    kind: Literal["text", "number", "whole", "yes", "choice", "choices"] = "text"
    is_required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    default: Any = None
    least: float | None = None
    most: float | None = None
    form: str = ""


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """What a server asks the person during a call.

    Attributes:
        server: The server.
        message: Its question, in its own words.
        fields: The fields of its form.
        url: The address that it wants the person to visit; empty for a form.
    """

    server: str
    message: str
    fields: tuple[QuestionField, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """A person's answer to a server's question.

    Attributes:
        action: Whether the person answered, refused to, or stopped the call.
        values: The values of the form's fields, by their names.
    """

    action: Literal["accept", "decline", "cancel"]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        call_id: The id of the call in its run.
        state: How it ended.
        text: Its whole text.
        server: The server that was called; empty for none.
        tool: The tool's name on the server.
        took_s: How long the server took, in seconds.
        sent_chars: How many characters of the text the model gets; None for all.
        pictures: Its pictures, which no model gets.
    """

    call_id: str
    state: CallState
    text: str
    server: str = ""
    tool: str = ""
    took_s: float = 0.0
    sent_chars: int | None = None
    pictures: tuple[Attachment, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether the model gets only the beginning of the text."""
        return self.sent_chars is not None and self.sent_chars < len(self.text)

    @property
    def sent(self) -> str:
        """The text that the model gets; a note at its end says what was cut off."""
        return cut_text(self.text, self.sent_chars)

    @property
    def sent_words(self) -> str:
        """How much of the text the model gets, in words."""
        if self.sent_chars is None or not self.is_cut:
            return f"all {counted(len(self.text), 'character')}"
        return cut_words(self.text, self.sent_chars)


NOT_RUN = "This call was not run."


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call that waits for approval, or is running.

    Attributes:
        server: The server.
        tool: The tool's name, for a person.
        asks: Whether it waits for the person: for approval, or for an answer to ``question``.
        running_s: For how many seconds it has been running.
        done: How much is done, in the server's own unit; None if the server does not say.
        total: How much there is to do; None if the server does not say.
        message: The server's message about the progress.
        question: What the server asks the person; None for nothing.
    """

    server: str
    tool: str
    asks: bool = False
    running_s: float = 0.0
    done: float | None = None
    total: float | None = None
    message: str = ""
    question: ServerQuestion | None = None


Permission = Literal["once", "conversation", "always", "denied"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about a call.

    Attributes:
        permission: Whether it may run, and for which later calls that counts.
        reason: Why it may not, for the model.
    """

    permission: Permission
    reason: str = ""


def result_values(result: CallResult) -> dict[str, object]:
    """Return a result as JSON values."""
    values: dict[str, object] = {
        "call_id": result.call_id,
        "state": result.state.value,
        "text": result.text,
        "server": result.server,
        "tool": result.tool,
        "took_s": result.took_s,
    }
    if result.is_cut:
        values["sent_chars"] = result.sent_chars
    values["pictures"] = [attachment_values(picture) for picture in result.pictures]
    kept = ("text", "sent_chars")
    return {name: value for name, value in values.items() if value or name in kept}


def result_from(fields: Fields) -> CallResult:
    """Return a result; raises ``DamagedFile`` if a value has a wrong type."""
    stored, sent = fields.maybe("state", str), fields.maybe("sent_chars", int)
    return CallResult(
        call_id=fields.take("call_id", str),
        # A later version may know other states: they count as a call that did not succeed.
        state=CallState(stored) if stored in set(CallState) else CallState.FAILED,
        text=fields.maybe("text", str) or "",
        server=fields.maybe("server", str) or "",
        tool=fields.maybe("tool", str) or "",
        took_s=max(fields.maybe("took_s", float) or 0.0, 0.0),
        sent_chars=None if sent is None else max(sent, 0),
        pictures=tuple(
            file for file in map(attachment_from, fields.items("pictures")) if file.kept_file
        ),
    )


# Main thread; knows no MCP and no process.

OnProgress = Callable[[float, float | None, str], None]
"""Called with the progress of a call, its total (None if it is not known), and a message."""
OnQuestion = Callable[[ServerQuestion], Awaitable[QuestionReply]]
"""Called with what the server asks during a call; returns the person's answer."""


class ToolsRefused(Exception):
    """An action failed; the message says why and what to do, in whole sentences."""


OnPage = Callable[[str], object]
"""Called with the address of a page, which is opened in the browser."""


@dataclass(frozen=True, slots=True)
class AddedServers:
    """What became of the servers in a JSON.

    Attributes:
        names: Those that were added, at least one; their names may have got a number.
        refused: Why others cannot be used, a sentence for each.
    """

    names: tuple[str, ...]
    refused: tuple[str, ...] = ()


class ToolHost(Protocol):
    """Keeps tool servers and runs them. Calls run on the window's loop and never block it."""

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """All servers in their present state, in the order in which they were added."""

    @property
    def notice(self) -> str:
        """What a person should know about how servers and secrets are kept; empty for nothing."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` on the main thread whenever ``servers`` or ``notice`` have changed."""

    def begin(self) -> None:
        """Read the list of servers in the background, without starting any."""

    async def add_text(self, text: str) -> AddedServers:
        """Add those servers of an ``mcpServers`` JSON that can be used, switched off.

        Raises:
            ToolsRefused: The text, or each server in it, cannot be used; none was added.
        """

    async def import_claude_desktop(self) -> AddedServers:
        """Add the servers of Claude Desktop's file, switched off.

        Raises:
            ToolsRefused: There is no such file, or it cannot be used.
        """

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        """Add a server, or replace another one, which is ended.

        A secret without a value keeps the value that it had.

        Raises:
            ToolsRefused: A field is invalid, or the server cannot be saved.
        """

    async def remove(self, name: str) -> None:
        """End a server, and delete it with its secrets.

        Raises:
            ToolsRefused: The change cannot be saved.
        """

    async def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on, which starts it, or off, which ends it.

        Raises:
            ToolsRefused: The change cannot be saved.
        """

    async def restart(self, name: str) -> None:
        """End a server and start it again."""

    async def sign_in(self, name: str, open_page: OnPage) -> None:
        """Have a person sign in to a server in the browser, and start it.

        Args:
            name: The server.
            open_page: Called with the address of the page where a person signs in.
        """

    async def ready(self, names: Sequence[str]) -> None:
        """Start those servers that are switched on, and wait until each is ready or has failed.

        One that died is started again by itself a few times; one that failed waits for ``restart``.
        """

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        """Call a tool and return what it answered.

        Cancelling this cancels the call at the server.

        Args:
            tool: The tool.
            arguments: Its arguments.
            on_progress: Called with the progress of the call.
            on_question: Asks the person what the server asks; the time that this takes does not
                count for the limit of the call.

        Raises:
            ToolsRefused: The server ended, took too long, refused, or gave an invalid answer.
        """

    async def read_resource(self, server: str, uri: str) -> str:
        """Return the text of a resource; raises ``ToolsRefused`` as ``call`` does."""

    async def prompt_text(self, server: str, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a server's prompt; raises ``ToolsRefused`` as ``call`` does.

        Args:
            server: The server's name.
            name: The prompt's name.
            arguments: The values to insert.
        """

    async def finish(self) -> None:
        """End all servers with their processes."""


_MOST_NAME_CHARS = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")


def tools_in_use(servers: Iterable[ServerState], choice: ToolsInUse) -> list[ToolInfo]:
    """Return the tools that the model may call: those of running servers that are on here."""
    return [
        tool
        for server in servers
        if server.stage is ServerStage.READY
        for tool in server.tools
        if choice.uses(tool)
    ]


def named(tools: Iterable[ToolInfo]) -> dict[str, ToolInfo]:
    """Return the tools by unique names that models and their templates can write.

    If two servers have a tool of the same name, the server's name is added.
    """
    listed = list(tools)
    plain = [_writable(tool.name) for tool in listed]
    by_name: dict[str, ToolInfo] = {}
    for tool, name in zip(listed, plain, strict=True):
        if plain.count(name) > 1:
            name = f"{_writable(tool.server)[:24]}__{name}"[:_MOST_NAME_CHARS]
        free, number = name, 2
        while free in by_name:
            free = f"{name[: _MOST_NAME_CHARS - 4]}_{number}"
            number += 1
        by_name[free] = tool
    return by_name


def arguments_of(call: ToolCall, tool: ToolInfo) -> dict[str, Any] | CallResult:
    """Return the arguments of a call; the result of one that has none that can be used."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    words = "The arguments are not a JSON object. The call was not run."
    return CallResult(call.id, CallState.FAILED, words, tool.server, tool.name)


def engine_tools(tools: dict[str, ToolInfo]) -> tuple[Tool, ...]:
    """Return the tools as a request to the engine has them."""
    return tuple(Tool(name, tool.description, tool.parameters) for name, tool in tools.items())


def _writable(name: str) -> str:
    return _FOREIGN.sub("_", name).strip("_")[:_MOST_NAME_CHARS] or "tool"


def stage_words(server: ServerState) -> str:
    """Return the state of a server in a few words, or the sentences about its problem."""
    match server.stage:
        case ServerStage.OFF:
            return "switched off"
        case ServerStage.STOPPED:
            return "Starts on demand"
        case ServerStage.STARTING:
            return "starting…"
        case ServerStage.READY:
            return f"running, {counted(len(server.tools), 'tool')}"
        case ServerStage.RESTARTING:
            return f"{server.problem} Restarting…"
        case ServerStage.FAILED:
            return server.problem


def no_tools_words(server: ServerState) -> str:
    """Return why no tools of a server are listed."""
    match server.stage:
        case ServerStage.OFF:
            return "Its tools are listed here once it is switched on."
        case ServerStage.STOPPED | ServerStage.STARTING | ServerStage.RESTARTING:
            return "Its tools are listed here once it has started."
        case ServerStage.READY:
            return "It offers no tools."
        case ServerStage.FAILED:
            return "It is not running, so its tools are not known. Its log may say why."


def chip_words(servers: tuple[ServerState, ...], choice: ToolsInUse) -> tuple[str, str]:
    """Return the words of the Tools button, and its accessible name."""
    used = [server for server in servers if server.name in choice.servers]
    lost = [server for server in used if server.stage is ServerStage.FAILED]
    if lost:
        return "Tools ⚠", f"Tools: {lost[0].problem}"
    if not used:
        return "Tools", "Tools: none in this conversation"
    count = sum(choice.uses(tool) for server in used for tool in server.tools)
    names = ", ".join(server.name for server in used)
    return f"Tools {len(used)}", f"Tools of {names}: {counted(count, 'tool')} known"
