"""The preferences that belong together: the server's, the models', the tools', new conversations'.

Pure values; knows no Qt and no file. Any thread.
"""

from dataclasses import asdict, dataclass
from typing import Literal

from ui.preferences.declaring import declare
from ui.preferences.pages import MODELS_WINDOW, NEW_CONVERSATIONS, SERVER, SERVER_WINDOW, TOOLS
from ui.records.conversations import ConversationSettings

ServerAtLaunch = Literal["as_left", "on", "off"]
KeyPlace = Literal["none", "keychain", "file"]
"""Where the server's API key is kept."""

DEFAULT_PORT = 8642
MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ServerPreferences:
    """How other programs are served. The API key is kept elsewhere."""

    port: int = declare(
        DEFAULT_PORT,
        help="port to listen on",
        least=1,
        most=65_535,
        place=SERVER_WINDOW,
        label="Port",
    )
    is_on_network: bool = declare(
        False,
        help="whether other computers can reach the server; they need the API key",
        place=SERVER_WINDOW,
        label="Visible on your network",
    )
    is_key_required: bool = declare(
        False,
        help="whether programs on this computer need the API key too",
        place=SERVER_WINDOW,
        label="Require the key on this computer too",
    )
    is_model_chosen: bool = declare(
        True,
        help="whether requests choose the model by its name; else the one loaded last answers all",
        place=SERVER_WINDOW,
        label="Requests choose the model by its name",
    )
    allowed_origins: tuple[str, ...] = declare(
        (),
        help="web origins whose pages may call the server, such as https://example.org",
        place=SERVER_WINDOW,
        label="Web pages that may call it",
    )
    at_launch: ServerAtLaunch = declare(
        "as_left",
        help="whether the server is turned on when Fullstop starts",
        place=SERVER,
        label="At launch",
        says="The server at launch",
        choices={"as_left": "As Last Time", "on": "Always On", "off": "Always Off"},
    )
    was_on: bool = declare(False, help="whether the server was on when Fullstop ended")

    @property
    def starts_on(self) -> bool:
        """Whether to turn the server on when the program starts."""
        return self.was_on if self.at_launch == "as_left" else self.at_launch == "on"


@dataclass(frozen=True, slots=True)
class ModelPreferences:
    """Where the models are, and when they are unloaded."""

    folders: tuple[str, ...] = declare(
        (), help="folders that are searched for models", place=MODELS_WINDOW, label="Add a Folder…"
    )
    rests_after_min: int = declare(
        0,
        help="minutes without a request after which the model is unloaded; 0 for never",
        least=0,
        most=1_440,
        place=MODELS_WINDOW,
        label="When the model is idle",
        choices={
            0: "Keep It Loaded",
            5: "Unload After 5 min",
            15: "Unload After 15 min",
            60: "Unload After 1 h",
        },
    )
    drafts: tuple[tuple[str, str], ...] = declare(
        (),
        help="folder of a model, and of the draft model that is loaded beside it",
        place=MODELS_WINDOW,
        label="Draft Model",
    )
    last_used: tuple[tuple[str, float], ...] = declare(
        (), help="folder and Unix time of the models that were loaded, oldest first"
    )


@dataclass(frozen=True, slots=True)
class ToolPreferences:
    """Limits for the use of tools. The tool servers are kept elsewhere."""

    most_calls: int = declare(
        20,
        help="calls of tools that one question may lead to before you are asked",
        least=1,
        most=1_000,
        place=TOOLS,
        label="Calls for one question",
        says="Calls of tools that one question may lead to before you are asked",
        unit="calls",
    )
    time_out_s: int = declare(
        120,
        help="seconds that a call of a tool may take",
        least=1,
        most=86_400,
        place=TOOLS,
        label="Longest call",
        says="Seconds that a call of a tool may take",
        unit="s",
    )
    most_result_kb: int = declare(
        64,
        help="kilobytes of a tool's result that the model is given",
        least=1,
        most=16_000,
        place=TOOLS,
        label="Longest result",
        says="Kilobytes of a tool's result that the model is given",
        unit="kB",
    )
    allowed: tuple[tuple[str, str, str], ...] = declare(
        (),
        help="tools that may run without asking, as server, tool and fingerprint",
        place=TOOLS,
        label="Allowed always",
        says="Tools that may run without asking",
    )


@dataclass(frozen=True, slots=True)
class NewConversation:
    """The settings of a new conversation; the fields are those of ``ConversationSettings``."""

    system_prompt: str = declare(
        "",
        help="system prompt",
        metavar="S",
        option="--system",
        place=NEW_CONVERSATIONS,
        label="System prompt",
        says="System prompt of new conversations",
        unset="Instructions that the model reads before the conversation",
    )
    temperature: float | None = declare(
        None,
        help="0 always takes the likeliest token (default: the model's own setting)",
        least=0,
        most=2,
        metavar="T",
        option="--temperature",
        place=NEW_CONVERSATIONS,
        label="Temperature",
        says="Temperature of new conversations",
        unset="Model default",
        step=0.05,
    )
    max_tokens: int | None = declare(
        None,
        help="end the answer after N tokens",
        least=1,
        most=MOST_TOKENS,
        metavar="N",
        option="--max-tokens",
        place=NEW_CONVERSATIONS,
        label="Longest answer",
        says="Longest answer of new conversations, in tokens",
        unset="No limit",
        step=64,
        unit="tokens",
    )
    is_thinking: bool = declare(
        False,
        help="let the model reason before it answers",
        option="--thinking",
        place=NEW_CONVERSATIONS,
        label="Thinking",
        says="Let the model reason first, if it can",
    )
    thinking_budget: int | None = declare(
        None,
        help="end the reasoning after N tokens, so that the answer begins",
        least=0,
        most=MOST_TOKENS,
        metavar="N",
        option="--thinking-budget",
        place=NEW_CONVERSATIONS,
        label="Thinking budget",
        says="Thinking budget of new conversations, in tokens",
        unset="No limit",
        step=64,
        unit="tokens",
    )

    def settings(self) -> ConversationSettings:
        """Return the settings of a new conversation."""
        return ConversationSettings(**asdict(self))
