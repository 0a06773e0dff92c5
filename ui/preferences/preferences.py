"""The preferences of the whole program, each declared once.

The settings file, the dialog, the defaults, some command-line options and the table in
``.github/OPTIONS.md`` are made from these declarations. Pure values; knows no Qt and no file. Any
thread.
"""

from dataclasses import dataclass, field
from typing import Literal

from ui.kit.look.theme_mode import ThemeMode
from ui.preferences.declaring import Declaration, declare, declared
from ui.preferences.groups import (
    ModelPreferences,
    NewConversation,
    ServerPreferences,
    ToolPreferences,
)
from ui.preferences.pages import GENERAL, SERVER, STORAGE

# The values of ``ui.records.conversations.ListOrder``.
ListOrderName = Literal["recent", "created", "oldest", "title"]

TEXT_PERCENTS = (70, 80, 90, 100, 110, 125, 150, 175, 200)


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of the whole program."""

    theme: ThemeMode = declare(
        "system",
        help="light, dark, or as the system",
        place=GENERAL,
        label="Appearance",
        choices={"system": "Same as the System", "light": "Light", "dark": "Dark"},
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
            "recent": "By Last Message",
            "created": "Newest First",
            "oldest": "Oldest First",
            "title": "By Title",
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
        help="gigabytes of disk for the cached prompts of conversations, which then need not be "
        "read again after a restart; 0 for none",
        least=0,
        most=1_000,
        place=STORAGE,
        label="Cached prompts",
        says="Disk space for the cached prompts of conversations",
        choices={
            0: "Keep None",
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
            0: "Keep None",
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
        """Bytes of disk for the cached prompts of conversations."""
        return self.kept_prompts_gb * 1_000_000_000

    @property
    def kept_traces_bytes(self) -> int:
        """Bytes of disk for the recorded tokens of answers."""
        return self.kept_traces_mb * 1_000_000


def declaration(path: str) -> Declaration:
    """Return the declaration of a preference, by its path, such as ``server.port``."""
    return next(one.setting for one in declared(Preferences) if one.path == path)
