"""``fullstop``: the window, or a chat in the terminal if no window can be shown.

Imports Qt only if there is a display. Main thread.
"""

import sys

from app import exits
from app.desktop.displays import display_problem, qt_problem
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
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(
            f"{problem}, and standard input and output are not a terminal. Use fullstop serve "
            "(for other apps) or fullstop ask PROMPT (for one answer).",
            exits.USAGE,
        )
    print(f"No window: {problem}. Chatting in the terminal instead.", file=sys.stderr)
    from app.terminal_chat import chat

    return chat(options, options.files)
