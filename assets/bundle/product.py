"""What the bundle is: its names, its layout on each system, and the commands that make it."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Runs the tools that a build needs, and says which one failed and how. Blocks.


class BuildFailed(Exception):
    """The bundle cannot be built; the message says what to do about it."""


def run(
    words: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return what it printed.

    Raises:
        BuildFailed: It is not there, or ended with an error, whose end the message has.
    """
    shown = " ".join(str(word) for word in words)
    try:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            cwd=folder,
            env=None if environment is None else dict(environment),
            check=False,
        )
    except FileNotFoundError as missing:
        raise BuildFailed(f"{words[0]} is not installed; it was to run: {shown}") from missing
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise BuildFailed(f"this failed with {done.returncode}: {shown}\n{said}")
    return done.stdout


# What the product is called and where its parts lie in a bundle.

NAME = "Fullstop"
COMMAND = "fullstop"
IDENTIFIER = "chat.fullstop.Fullstop"
SUMMARY = "Chat with language models, serve them, and see why they stop"
RUN_TYPE = "chat.fullstop.saved-run"
RUN_SUFFIX = "fullstop-run"
RUN_MIME = "application/x-fullstop-run+json"
LEAST_MACOS = (14, 0)
ROOT = Path(__file__).parents[2]
ICONS = Path(__file__).parent / "icons"
LICENCE_TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a bundle are.

    Attributes:
        root: The app, or the folder.
        program: What a person starts.
        python: The interpreter's prefix.
        python_below_program: The same, seen from the folder of ``program``.
        resources: Icons and texts.
        licences: The file with all licences.
    """

    root: Path
    program: Path
    python: Path
    python_below_program: str
    resources: Path
    licences: Path


def mac_layout(folder: Path) -> Layout:
    """Return where things are in ``Fullstop.app`` in a folder."""
    root = folder / f"{NAME}.app"
    resources = root / "Contents" / "Resources"
    return Layout(
        root=root,
        program=root / "Contents" / "MacOS" / NAME,
        python=resources / "python",
        python_below_program="../Resources/python",
        resources=resources,
        licences=resources / "Licences.txt",
    )


def linux_layout(folder: Path) -> Layout:
    """Return where things are in the folder ``fullstop`` in a folder."""
    root = folder / COMMAND
    return Layout(
        root=root,
        program=root / COMMAND,
        python=root / "python",
        python_below_program="python",
        resources=root / "share",
        licences=root / "LICENCES.txt",
    )


def layout_here(folder: Path) -> Layout:
    """Return the layout for the system that this runs on."""
    return mac_layout(folder) if sys.platform == "darwin" else linux_layout(folder)
