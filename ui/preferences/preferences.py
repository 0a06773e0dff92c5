"""Everything that a person may set for the whole program: one declaration of each preference.

The settings file, the dialog, the defaults, options of the command line and the table of the
options' page are made from it. Pure values; knows no Qt and no file. Any thread.
"""

from dataclasses import asdict, dataclass, field
from typing import Literal

from ui.kit.look.theme_mode import ThemeMode
from ui.preferences.declaring import Declaration, declare, declared
from ui.records.conversations import ConversationSettings

ServerAtLaunch = Literal["as_left", "on", "off"]
# The values of ``ui.records.placement.ListOrder``.
ListOrderName = Literal["recent", "created", "oldest", "title"]

DEFAULT_PORT = 8642
MOST_TOKENS = 2**31 - 1
TEXT_PERCENTS = (70, 80, 90, 100, 110, 125, 150, 175, 200)

# Where a preference is changed: a page of the dialog, or another window.
GENERAL, SERVER, NEW_CONVERSATIONS = "General", "Server", "New conversations"
STORAGE = "Storage"
TOOLS = "Tools"
PAGES = {
    GENERAL: "",
    SERVER: "While the server is on, the tray icon brings the window back. Quit ends everything. "
    "Port, network, key and origins are set in the server window.",
    NEW_CONVERSATIONS: "",
    TOOLS: "Servers are added and switched on in the Tool Servers window. In each conversation, "
    "Tools says which of them the model may use.",
    STORAGE: "What the model has read of your conversations is kept on this computer's disk, so "
    "that it need not be read again after a restart; the recorded tokens of their answers, so that "
    "the inspector can show them then. Only you can open these files. Requests of other apps leave "
    "nothing there.",
}
# Beside these stands how much is kept now.
KEPT_PROMPTS, KEPT_TRACES = "kept_prompts_gb", "kept_traces_mb"
SERVER_WINDOW, MODELS_WINDOW = "the Server window", "the Models window"


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
        choices={"as_left": "As last time", "on": "Always on", "off": "Always off"},
    )
    was_on: bool = declare(False, help="whether the server was on when Fullstop ended")

    @property
    def starts_on(self) -> bool:
        """Whether the server is to be turned on now that the program starts."""
        return self.was_on if self.at_launch == "as_left" else self.at_launch == "on"


@dataclass(frozen=True, slots=True)
class ModelPreferences:
    """Where models are, and when they free their memory."""

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
            0: "Keep it loaded",
            5: "Unload after 5 min",
            15: "Unload after 15 min",
            60: "Unload after 1 h",
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
    """How far the model may go with tools. The servers are kept elsewhere."""

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
    """What a new conversation begins with; the fields are those of ``ConversationSettings``."""

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


@dataclass(frozen=True, slots=True)
class Preferences:
    """Everything that a person may set for the whole program."""

    theme: ThemeMode = declare(
        "system",
        help="light, dark, or as the system",
        place=GENERAL,
        label="Appearance",
        choices={"system": "Same as the system", "light": "Light", "dark": "Dark"},
    )
    has_high_contrast: bool = declare(
        False,
        help="whether lines and small text are drawn stronger than usual",
        place=GENERAL,
        label="Contrast",
        says="Stronger lines and text",
    )
    text_percent: int = declare(
        100,
        help="size of all text, relative to the usual",
        least=TEXT_PERCENTS[0],
        most=TEXT_PERCENTS[-1],
        place=GENERAL,
        label="Text size",
        choices={percent: f"{percent} %" for percent in TEXT_PERCENTS},
    )
    tells_of_answers: bool = declare(
        True,
        help="whether a notification tells of a long answer that ended in the background",
        place=GENERAL,
        label="Notifications",
        says="Tell when a long answer ends in the background",
    )
    list_order: ListOrderName = declare(
        "recent",
        help="what the list of conversations is sorted by",
        place=GENERAL,
        label="Conversations",
        says="Order of the list of conversations",
        choices={
            "recent": "By last message",
            "created": "Newest first",
            "oldest": "Oldest first",
            "title": "By title",
        },
    )
    server: ServerPreferences = field(default_factory=ServerPreferences)
    stays_in_tray: bool = declare(
        True,
        help="whether the server goes on when the window is closed",
        place=SERVER,
        label="When the window closes",
        says="Keep serving in the background",
    )
    kept_prompts_gb: int = declare(
        5,
        help="gigabytes of disk for what the model has read of conversations, so that it need not "
        "be read again after a restart; 0 for none",
        least=0,
        most=1_000,
        place=STORAGE,
        label="What the model has read",
        says="Disk space for what the model has read of conversations",
        choices={
            0: "Keep none",
            1: "Keep up to 1 GB",
            5: "Keep up to 5 GB",
            20: "Keep up to 20 GB",
            100: "Keep up to 100 GB",
        },
    )
    kept_traces_mb: int = declare(
        500,
        help="megabytes of disk for the recorded tokens of answers, which the inspector shows "
        "after a restart; the oldest go first; 0 for none",
        least=0,
        most=100_000,
        place=STORAGE,
        label="Recorded tokens",
        says="Disk space for the recorded tokens of answers",
        choices={
            0: "Keep none",
            100: "Keep up to 100 MB",
            500: "Keep up to 500 MB",
            2_000: "Keep up to 2 GB",
            10_000: "Keep up to 10 GB",
        },
    )
    new_conversation: NewConversation = field(default_factory=NewConversation)
    models: ModelPreferences = field(default_factory=ModelPreferences)
    tools: ToolPreferences = field(default_factory=ToolPreferences)

    @property
    def kept_prompts_bytes(self) -> int:
        """Bytes of disk for what the model has read of conversations."""
        return self.kept_prompts_gb * 1_000_000_000

    @property
    def kept_traces_bytes(self) -> int:
        """Bytes of disk for the recorded tokens of answers."""
        return self.kept_traces_mb * 1_000_000


def declaration(path: str) -> Declaration:
    """Return what is declared of a preference, by its path, such as ``server.port``."""
    return next(one.setting for one in declared(Preferences) if one.path == path)
