"""What the product is called and where its parts lie in a bundle. Pure; knows no tool."""

import sys
from dataclasses import dataclass
from pathlib import Path

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
