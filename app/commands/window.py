"""``fullstop``: the window, or a chat in the terminal without a display. Main thread."""

import os
import sys

from app import exits
from app.exits import CommandError
from app.settings.options import ChatOptions


def run(options: ChatOptions) -> int:
    """Show the window, or chat in the terminal; return the exit code."""
    problem = display_problem() or qt_problem()
    if problem is None:
        from app.desktop.window import run as show_window

        return show_window(options)
    if options.opened is not None:
        raise CommandError(
            f"{problem}; a saved run is shown in the window. In the terminal, "
            f"fullstop replay {options.opened} plays it.",
            exits.USAGE,
        )
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(
            f"{problem}, and standard input and output are not a terminal. Use fullstop serve "
            "(for other apps) or fullstop ask PROMPT (for one answer).",
            exits.USAGE,
        )
    print(f"No window: {problem}. Chatting in the terminal instead.", file=sys.stderr)
    from app.terminal.chat import chat

    return chat(options, options.files)


def display_problem() -> str | None:
    """Return why no window can be shown, by the environment; None if one may be possible."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names):
        return None
    return "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)"


def qt_problem() -> str | None:
    """Import Qt and return why it cannot be loaded; None if it can."""
    try:
        import PySide6.QtWidgets  # noqa: F401 - only whether it can be loaded
    except ImportError as error:
        return f"Qt cannot be loaded ({error})"
    return None
