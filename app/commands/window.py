"""``fullstop``: the window, or a chat in the terminal if no window can be shown.

Imports Qt only if there is a display. Main thread.
"""

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

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
    from app.terminal_chat import chat

    return chat(options, options.files)


# -- whether this machine can show a window ----------------------------------------------------
# If Qt cannot reach a display, or one of its system libraries is missing, it does not raise an
# exception but ends the process. So its platform plugin is opened and the display asked first.


_DRAW_ON_SCREEN = ("xcb", "wayland")


def platform_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the platforms that Qt would try on Linux, best first; empty without a display."""
    if chosen := environment.get("QT_QPA_PLATFORM"):
        return tuple(part.split(":")[0] for part in chosen.split(";") if part)
    displays = []
    if environment.get("WAYLAND_DISPLAY"):
        displays.append("wayland")
    if environment.get("DISPLAY"):
        displays.append("xcb")
    return tuple(displays)


def display_problem() -> str | None:
    """Return why no window can be shown, in words; None if one may be possible.

    Reads only the environment, so it is fast.
    """
    if not sys.platform.startswith("linux") or platform_names(os.environ):
        return None
    return "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)"


def qt_problem() -> str | None:
    """Import Qt and return why it could not show a window, in words; None if it can."""
    try:
        import PySide6
        import PySide6.QtWidgets
    except ImportError as error:
        return f"Qt cannot be loaded ({error})"
    if not sys.platform.startswith("linux"):
        return None
    plugins = Path(PySide6.__file__).parent / "Qt" / "plugins" / "platforms"
    problems = [_platform_problem(name, plugins) for name in platform_names(os.environ)]
    if None in problems:
        return None
    return "; ".join(problem for problem in problems if problem)


def _platform_problem(name: str, plugins: Path) -> str | None:
    plugin = plugins / f"libq{name}.so"
    if not plugin.is_file():
        return f"Qt has no platform {name}"
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        library = str(error).partition(":")[0]
        return f"Qt's {name} platform needs {library}, which is not installed"
    if name in _DRAW_ON_SCREEN and not _is_reachable(name):
        return f"the {name} display does not answer"
    return None


def _is_reachable(name: str) -> bool:
    """Return whether the display named in the environment lets this process connect.

    Uses the libraries that the platform plugin has just loaded.
    """
    if name == "wayland":
        wayland = ctypes.CDLL("libwayland-client.so.0")
        wayland.wl_display_connect.restype = ctypes.c_void_p
        connection = wayland.wl_display_connect(None)
        if not connection:
            return False
        wayland.wl_display_disconnect(ctypes.c_void_p(connection))
        return True
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    try:
        return not xcb.xcb_connection_has_error(connection)
    finally:
        xcb.xcb_disconnect(connection)
