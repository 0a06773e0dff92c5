"""MCP servers as the window sees them: configuration, state, offers, questions, and their host.

https://modelcontextprotocol.io describes what servers offer. Knows no MCP and no process.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.wording import counted

ServerStage = Literal["off", "stopped", "starting", "ready", "restarting", "failed"]
"""``stopped`` servers are on and start when needed; ``restarting`` ones crashed; ``failed`` ones
wait for the user."""


@dataclass(frozen=True, slots=True)
class NamedValue:
    """An environment variable or a header; the value of a secret is only in the keychain."""

    name: str
    value: str = ""
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class ToolServerConfig:
    """How a server is reached: a program (stdio), or an address (HTTP)."""

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
        return not self.url

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secret values, each after its kind."""
        kinds = (("env", self.env), ("header", self.headers))
        return tuple(
            f"{kind}/{value.name}" for kind, values in kinds for value in values if value.is_secret
        )

    @property
    def target(self) -> str:
        """The program with its arguments, or the address."""
        return self.url or " ".join((self.command, *self.args))


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool of a server."""

    server: str
    name: str
    title: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.server, self.name


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A resource that a server offers to read, such as a file."""

    server: str
    uri: str
    title: str


@dataclass(frozen=True, slots=True)
class QuestionField:
    """A field of a server's form (elicitation), or an argument of a prompt."""

    name: str
    title: str
    description: str = ""
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"] = "text"
    is_required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt that a server offers."""

    server: str
    name: str
    title: str
    arguments: tuple[QuestionField, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server at one moment."""

    config: ToolServerConfig
    stage: ServerStage = "off"
    problem: str = ""
    tools: tuple[ToolInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    remarks: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    version: str = ""
    needs_sign_in: bool = False

    @property
    def name(self) -> str:
        return self.config.name


def stage_text(server: ServerState) -> str:
    """Return the state of a server as a short label, or its problem in sentences."""
    match server.stage:
        case "off":
            return "Off in all chats"
        case "stopped":
            return "Starts on demand"
        case "starting":
            return "Starting…"
        case "ready":
            return f"Running, {counted(len(server.tools), 'tool')}"
        case "restarting":
            return f"{problem_text(server)} Restarting…"
        case "failed":
            return problem_text(server)


def problem_text(server: ServerState) -> str:
    """Return the problem of a server below its name, which the sentence leaves out."""
    without_name = server.problem.removeprefix(f"The MCP server “{server.name}” ")
    return f"{without_name[:1].upper()}{without_name[1:]}"


def no_tools_text(server: ServerState) -> str:
    """Return why no tools of a server are listed."""
    match server.stage:
        case "off":
            return "Its tools are listed here once it is switched on."
        case "ready":
            return "It offers no tools."
        case "failed":
            return "It is not running, so its tools are not known. Its log may show why."
        case _:
            return "Its tools are listed here once it has started."


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a call, or a resource: its whole text, and the contents of its pictures."""

    text: str
    is_error: bool = False
    pictures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """A server's question to the user during a call: a form, or an address to visit."""

    server: str
    message: str
    fields: tuple[QuestionField, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """The user's reply to a server's question, with the values of the form's fields."""

    action: Literal["accept", "decline", "cancel"]
    values: Mapping[str, Any] = field(default_factory=dict)


class ToolsRefused(Exception):
    """An operation failed; the message has the reason and the remedy, in sentences."""


AddedServers = tuple[Sequence[str], Sequence[str]]
"""The names of the servers added from a JSON, and an error for each that cannot be used."""
OnProgress = Callable[[float, float | None, str], None]
"""Called with the progress of a call, its total (None if it is not known), and a message."""
OnQuestion = Callable[[ServerQuestion], Awaitable[QuestionReply]]
"""Shows a server's question during a call and returns the user's reply."""


class ToolHost(Protocol):
    """Stores and runs MCP servers, on the window's loop. Operations raise ``ToolsRefused``."""

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """All servers, in the order in which they were added."""

    @property
    def notice(self) -> str:
        """A notice about the file of servers and the place of secrets; empty for none."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever ``servers`` or ``notice`` have changed."""

    def begin(self) -> None:
        """Read the list of servers in the background, without starting any."""

    async def add_text(self, text: str) -> AddedServers:
        """Add the valid servers of an ``mcpServers`` JSON, switched off."""

    async def import_claude_desktop(self) -> AddedServers:
        """Add the servers of Claude Desktop's file, switched off."""

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        """Add a server, or replace one, which is ended; an empty secret keeps its value."""

    async def remove(self, name: str) -> None:
        """End a server, and delete it with its secrets."""

    async def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on, which starts it, or off, which ends it."""

    async def restart(self, name: str) -> None:
        """End a server and start it again."""

    async def sign_in(self, name: str, open_page: Callable[[str], object]) -> None:
        """Start a server; ``open_page`` shows its sign-in page in the browser."""

    async def ensure_ready(self, names: Sequence[str]) -> None:
        """Start those servers that are on, and wait until each is ready or has failed."""

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        """Call a tool; cancelling this cancels the call at the server.

        The time that ``on_question`` takes does not count for the timeout.
        """

    async def read_resource(self, server: str, uri: str) -> ToolAnswer:
        """Return the text and the pictures of a resource."""

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> ToolAnswer:
        """Return the text and the pictures of a server's prompt."""

    async def finish(self) -> None:
        """End all servers with their processes."""
