"""The preferences of the whole program, each declared once.

The settings file, the dialog, the defaults, some command-line options and the table in
``.github/OPTIONS.md`` are made from these declarations. Pure values; knows no Qt and no file. Any
thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_type_hints

from ui.kit.colors import ThemeMode
from ui.records.conversations import ConversationSettings, ListOrder, WhenFull
from ui.words import THIS_COMPUTER

# Where a preference is changed: a pane of Settings, or another window.
GENERAL, APPEARANCE, NEW_CHATS, STOPS = "General", "Appearance", "New Chats", "Stops"
SERVER, TOOLS, STORAGE, MEMORY = "Server", "Tools", "Storage", "Memory"
PANES = {
    GENERAL: "",
    APPEARANCE: "",
    NEW_CHATS: "",
    STOPS: "",
    MEMORY: "",
    SERVER: "",
    TOOLS: "Each chat turns its servers on and off in its Tools tab.",
    STORAGE: "Only you can open these files. Nothing is kept of the requests of other apps.",
}
# The dialog shows beside these how much is kept now.
KEPT_PROMPTS, KEPT_TRACES = "kept_prompts_gb", "kept_traces_mb"
SERVER_ACCESS, MODELS_WINDOW = f"Settings, {SERVER}", "the Models window"

T = TypeVar("T")

_KEY = "setting"

ServerAtLaunch = Literal["as_left", "on", "off"]
KeyLocation = Literal["none", "keychain", "file"]
"""Where the server's API key is kept."""
DEFAULT_PORT = 8642
API_KEY_VARIABLE = "FULLSTOP_API_KEY"
TOKENS_MAX = 2**31 - 1
TEXT_PERCENTS = (70, 80, 90, 100, 110, 125, 150, 175, 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A setting; ``declared`` adds the path, the type and the default of its field."""

    path: str = ""
    kind: Any = None
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    metavar: str = ""  # empty for a switch
    example: Any = None
    option: str = ""  # empty for none, or for one of the field's name
    section: str = ""
    label: str = ""
    group: str = ""  # the heading of its card in the pane
    note: str = ""  # below the label
    choices: Mapping[Any, str] = field(default_factory=dict)
    unset: str = ""  # the words for None
    step: float = 1
    unit: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def declare(default: T, **attributes: Any) -> T:
    """Return a dataclass's field with a default; ``attributes`` are fields of ``Declaration``."""
    return field(default=default, metadata={_KEY: Declaration(**attributes)})


def declared(kind: type, prefix: str = "") -> Iterator[Declaration]:
    """Return the settings of a dataclass and of the dataclasses inside it, in their order."""
    usual = kind()
    hints = get_type_hints(kind)
    for field_ in fields(kind):
        inner = hints[field_.name]
        if is_dataclass(inner) and isinstance(inner, type):
            yield from declared(inner, f"{prefix}{field_.name}.")
        else:
            setting = field_.metadata.get(_KEY, Declaration())
            path, default = f"{prefix}{field_.name}", getattr(usual, field_.name)
            yield replace(setting, path=path, kind=inner, default=default)


@dataclass(frozen=True, slots=True)
class ServerPreferences:
    """How other programs are served. The API key is kept elsewhere."""

    port: int = declare(
        DEFAULT_PORT,
        help="port to listen on",
        minimum=1,
        maximum=65_535,
        section=SERVER,
        label="Port",
        group="Server",
    )
    is_on_network: bool = declare(
        False,
        help="whether other computers can reach the server; they need the API key",
        section=SERVER_ACCESS,
        label="Visible on your network",
    )
    is_key_required: bool = declare(
        False,
        help="whether programs on this computer need the API key too",
        section=SERVER_ACCESS,
        label=f"Require the API key for apps on {THIS_COMPUTER}",
    )
    is_model_chosen: bool = declare(
        True,
        help="whether requests choose the model by its name; else the one loaded last answers all",
        section=SERVER,
        label="Let requests choose the model",
        group="Server",
        note="Otherwise the model loaded last answers, whatever name a request has.",
    )
    allowed_origins: tuple[str, ...] = declare(
        (),
        help="web origins whose pages may call the server, such as https://example.org",
        section=SERVER_ACCESS,
        label="Allowed Origins",
    )
    allowed_hosts: tuple[str, ...] = declare(
        (),
        help="names by which other computers reach this one, besides its own name",
        section=SERVER_ACCESS,
        label="Allowed Host Names",
    )
    at_launch: ServerAtLaunch = declare(
        "as_left",
        help="whether the server is turned on when Fullstop starts",
        section=SERVER,
        label="Server at launch",
        group="Server",
        choices={"as_left": "Last State", "on": "On", "off": "Off"},
    )
    task_max_tokens: int = declare(
        1_000,
        help="most tokens of the answer to a task that a client sets in the background without a "
        "limit, such as Open WebUI's titles and tags; 0 for no limit",
        minimum=0,
        maximum=1_000_000,
        section=SERVER,
        label="Longest answer to background tasks",
        group="Server",
        note="Of clients that set no limit, such as Open WebUI’s titles. 0 for no limit.",
        unit="tokens",
    )
    was_on: bool = declare(False, help="whether the server was on when Fullstop ended")

    @property
    def starts_on(self) -> bool:
        """Whether to turn the server on when the program starts."""
        return self.was_on if self.at_launch == "as_left" else self.at_launch == "on"


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """The user's choices for the model of one resolved folder."""

    folder: str
    draft: str = ""
    base: str = ""  # of an adapter, if the user chose it
    template: str = ""  # the user's chat template; empty where the model's own is used
    template_draft: str = ""  # edited in the window of the template, and not used yet
    is_pinned: bool = False
    settings: str = ""  # JSON of the settings that new conversations begin with
    stops: str = ""  # JSON of the stop list that new conversations begin with
    used_at: float = 0.0  # Unix time of the last load


@dataclass(frozen=True, slots=True)
class ModelPreferences:
    """Where the models are, and when they are unloaded."""

    folders: tuple[str, ...] = declare(
        (),
        help="folders that are searched for models",
        section=MODELS_WINDOW,
        label="Add Folder…",
    )
    rests_after_min: int = declare(
        0,
        help="minutes without a request after which the model is unloaded; 0 for never",
        minimum=0,
        maximum=1_440,
        section=MODELS_WINDOW,
        label="When the model is idle",
        choices={
            0: "Never Unload",
            5: "Unload After 5 min",
            15: "Unload After 15 min",
            60: "Unload After 1 h",
        },
    )
    looks_for_updates: bool = declare(
        True,
        help="whether the hub is asked for newer revisions of models while their window is open",
        section=GENERAL,
        label="Check for model updates",
        group="Updates",
        note="While the Models window is open.",
    )
    choices: tuple[ModelChoices, ...] = declare(
        (),
        help="per folder of a model: its draft model, your chat template for it, whether it stays "
        "in memory once it is loaded, the settings and stop list that new conversations with it "
        "begin with, and its last use",
        section=MODELS_WINDOW,
        label="Draft Model, Chat Template, Keep in Memory",
    )


@dataclass(frozen=True, slots=True)
class ToolPreferences:
    """Limits for the use of tools. The MCP servers are kept elsewhere."""

    most_calls: int = declare(
        20,
        help="calls of tools that one question may lead to before you are asked",
        minimum=1,
        maximum=1_000,
        section=TOOLS,
        label="Calls per message",
        note="Then you are asked before another tool is called.",
        unit="calls",
    )
    time_out_s: int = declare(
        120,
        help="seconds that a call of a tool may take",
        minimum=1,
        maximum=86_400,
        section=TOOLS,
        label="Timeout",
        unit="s",
    )
    most_result_kb: int = declare(
        64,
        help="kilobytes of a tool's result that the model is given",
        minimum=1,
        maximum=16_000,
        section=TOOLS,
        label="Maximum result size",
        unit="kB",
    )
    allowed: tuple[tuple[str, str, str], ...] = declare(
        (),
        help="tools that may run without asking, as server, tool and fingerprint",
        section=TOOLS,
        label="Tools that run without asking",
    )


@dataclass(frozen=True, slots=True)
class NewConversation:
    """The settings of a new conversation; the fields are those of ``ConversationSettings``."""

    system_prompt: str = declare(
        "",
        help="system prompt",
        metavar="S",
        option="--system",
        section=NEW_CHATS,
        label="System prompt",
        unset="Instructions that the model reads before the conversation",
    )
    temperature: float | None = declare(
        None,
        help="0 always takes the likeliest token (default: the model's own setting)",
        minimum=0,
        maximum=2,
        metavar="T",
        option="--temperature",
        section=NEW_CHATS,
        label="Temperature",
        unset="Model default",
        step=0.05,
    )
    max_tokens: int | None = declare(
        None,
        help="end the answer after N tokens",
        minimum=1,
        maximum=TOKENS_MAX,
        metavar="N",
        option="--max-tokens",
        section=NEW_CHATS,
        label="Maximum length",
        unset="No limit",
        step=64,
        unit="tokens",
    )
    is_thinking: bool = declare(
        False,
        help="let the model reason before it answers",
        option="--thinking",
        section=NEW_CHATS,
        label="Let the model reason first, if it can",
    )
    thinking_budget: int | None = declare(
        None,
        help="end the reasoning after N tokens, so that the answer begins",
        minimum=0,
        maximum=TOKENS_MAX,
        metavar="N",
        option="--thinking-budget",
        section=NEW_CHATS,
        label="Thinking budget",
        unset="No limit",
        step=64,
        unit="tokens",
    )

    def settings(self) -> ConversationSettings:
        return ConversationSettings(**asdict(self))


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of the whole program."""

    theme: ThemeMode = declare(
        "system",
        help="light, dark, or as the system",
        section=APPEARANCE,
        label="Appearance",
        group="Window",
        choices={"system": "System", "light": "Light", "dark": "Dark"},
    )
    has_high_contrast: bool = declare(
        False,
        help="whether lines and small text are drawn stronger than usual",
        section=APPEARANCE,
        label="Increase contrast",
        group="Window",
    )
    reduces_motion: bool = declare(
        False,
        help="whether nothing slides, fades or shimmers; as well if the Mac reduces motion",
        section=APPEARANCE,
        label="Reduce motion",
        group="Window",
        note="Nothing slides, fades or shimmers.",
    )
    text_percent: int = declare(
        100,
        help="zoom of the text of messages: Zoom In and Zoom Out in the View menu",
        minimum=TEXT_PERCENTS[0],
        maximum=TEXT_PERCENTS[-1],
        section=APPEARANCE,
        label="Message size",
        group="Window",
        choices={percent: f"{percent}%" for percent in TEXT_PERCENTS},
    )
    interface_percent: int = declare(
        100,
        help="size of the whole interface; applies at the next start",
        minimum=TEXT_PERCENTS[0],
        maximum=TEXT_PERCENTS[-1],
        section=APPEARANCE,
        label="Interface size",
        group="Window",
        note="Applies when Fullstop starts again.",
        choices={percent: f"{percent}%" for percent in TEXT_PERCENTS},
    )
    code_wraps: bool = declare(
        False,
        help="whether long lines of code wrap; otherwise they scroll sideways",
        section=APPEARANCE,
        label="Wrap long lines of code",
        group="Code",
    )
    code_has_numbers: bool = declare(
        False,
        help="whether the lines of code are numbered",
        section=APPEARANCE,
        label="Number the lines of code",
        group="Code",
    )
    tells_of_answers: bool = declare(
        True,
        help="whether a notification tells of a long answer that ended in the background",
        section=GENERAL,
        label="Notify when a long answer finishes in the background",
        group="Answers",
    )
    ends_repetition: bool = declare(
        True,
        help="whether answers that repeat themselves are ended: after 4 exact copies of 256 tokens "
        "or more together; thinking is closed, so that the answer begins",
        section=GENERAL,
        label="End answers that repeat themselves",
        group="Answers",
        note="After four exact copies of a passage.",
    )
    when_full: WhenFull = declare(
        "leave_out",
        help="treatment of the oldest messages of a conversation longer than the context",
        section=GENERAL,
        label="Long conversations",
        group="Conversations",
        note="When a conversation is longer than the model’s context.",
        choices={
            "leave_out": "Drop Oldest Messages",
            "summarize": "Summarize Oldest Messages",
            "ask": "Ask",
        },
    )
    names_conversations: bool = declare(
        True,
        help="whether the model writes the titles of new conversations, once it has nothing else "
        "to do",
        section=GENERAL,
        label="Let the model name new conversations",
        group="Conversations",
    )
    list_order: ListOrder = declare(
        "recent",
        help="what the list of conversations is sorted by",
        section=GENERAL,
        label="Sort conversations",
        group="Conversations",
        choices={
            "recent": "By Last Message",
            "created": "Newest First",
            "oldest": "Oldest First",
            "title": "By Title",
        },
    )
    uses_memory: bool = declare(
        False,
        help="whether new conversations use the memory: the model is given the facts that are "
        "kept, can keep others, and can search your conversations",
        section=MEMORY,
        label="Use memory in new chats",
    )
    checks_for_updates: bool = declare(
        False,
        help="whether the newest version of Fullstop is looked up when it starts",
        section=GENERAL,
        label="Check for Fullstop updates",
        group="Updates",
        note="When Fullstop starts.",
    )
    asks_before_updates: bool = declare(
        True,
        help="whether Fullstop asks before the first look for its newest version",
    )
    columns: tuple[tuple[str, str], ...] = declare(
        (),
        help="visible columns per table (empty: all)",
    )
    server: ServerPreferences = field(default_factory=ServerPreferences)
    stays_in_tray: bool = declare(
        True,
        help="whether the server goes on when the window is closed; on a Mac, the whole program",
        section=SERVER,
        label="Keep serving when the window closes",
        group="Server",
        note="The tray icon brings the window back. Quit ends everything.",
    )
    kept_prompts_gb: int = declare(
        5,
        help="gigabytes of disk for the cached prompts of conversations, which then need not be "
        "read again after a restart; 0 for none",
        minimum=0,
        maximum=1_000,
        section=STORAGE,
        label="Cached prompts",
        note="Conversations need not be read again after a restart.",
        choices={
            0: "Off",
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
        minimum=0,
        maximum=100_000,
        section=STORAGE,
        label="Recorded tokens",
        note="Answers can be inspected after a restart.",
        choices={
            0: "Off",
            100: "Keep up to 100 MB",
            500: "Keep up to 500 MB",
            2_000: "Keep up to 2 GB",
            10_000: "Keep up to 10 GB",
        },
    )
    default_stops: str = declare(
        "",
        help="the stop list that new conversations begin with, as JSON; changed in Settings, Stops",
    )
    stop_lists: tuple[tuple[str, str], ...] = declare(
        (),
        help="name of each saved stop list, and its rows as JSON",
    )
    new_conversation: NewConversation = field(default_factory=NewConversation)
    models: ModelPreferences = field(default_factory=ModelPreferences)
    tools: ToolPreferences = field(default_factory=ToolPreferences)

    @property
    def kept_prompts_bytes(self) -> int:
        return self.kept_prompts_gb * 1_000_000_000

    @property
    def kept_traces_bytes(self) -> int:
        return self.kept_traces_mb * 1_000_000


def declaration(path: str) -> Declaration:
    """Return the declaration of a preference, by its path, such as ``server.port``."""
    return next(setting for setting in declared(Preferences) if setting.path == path)
