"""A tool server as the window knows it: how it is started, its tools, its state.

Plain values; any thread. https://modelcontextprotocol.io describes what servers offer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
        return tuple(f"{kind}/{one.name}" for kind, all_ in kinds for one in all_ if one.is_secret)

    @property
    def words(self) -> str:
        """The program with its arguments, or the address."""
        return self.url or " ".join((self.command, *self.args))


class ServerStage(StrEnum):
    """The state of a server. ``STOPPED`` ones are switched on, and start when they are needed."""

    OFF = "off"
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
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
        problem: Why it failed, as whole sentences; empty if it did not.
        tools: The tools that the model may call.
        resources: The resources that can be read and attached.
        prompts: The prompts that it offers.
        remarks: What was left out of these lists, and why, as whole sentences.
        log: The last lines that it wrote for people, oldest first.
        version: The name and version that it reports, once it has done so.
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

    @property
    def name(self) -> str:
        """The server's name."""
        return self.config.name
