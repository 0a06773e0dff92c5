"""``fullstop``: the window, or a chat in the terminal without a display. Main thread."""

import ctypes
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


# The system libraries that Qt's wheels do not contain, by their packages in Debian and Ubuntu.
SYSTEM_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
}
X11_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def missing_libraries() -> str | None:
    """Return which system libraries of Qt are missing, all at once; None if none is."""
    if not sys.platform.startswith("linux"):
        return None
    default = "" if os.environ.get("WAYLAND_DISPLAY") else "xcb"
    is_x11 = os.environ.get("QT_QPA_PLATFORM", default) == "xcb"
    missing = []
    for library, package in (SYSTEM_LIBRARIES | (X11_LIBRARIES if is_x11 else {})).items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if not missing:
        return None
    packages = " ".join(missing)
    return f"Qt needs system libraries that are missing (apt-get install {packages})"


def qt_problem() -> str | None:
    """Import Qt and return why it cannot be loaded; None if it can."""
    if (missing := missing_libraries()) is not None:
        return missing
    try:
        import PySide6.QtWidgets  # noqa: F401 - only whether it can be loaded
    except ImportError as error:
        return f"Qt cannot be loaded ({error})"
    return None
