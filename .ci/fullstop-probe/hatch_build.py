"""Builds the package ``fullstop_probe``: the probe's modules of the application, below that name.

In the application they are called ``api``, ``app`` and ``engine``, which are too general for an
environment that other packages share, and for a repository that has folders of these names.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # the tests build the package without hatchling
    BuildHookInterface = object

NAME = "fullstop_probe"
# Modules and whole folders, as the application has them.
PARTS = (
    "api/__init__.py",
    "api/conformance",
    "api/terminal_text.py",
    "app/__init__.py",
    "app/probe_cli.py",
    "app/settings/__init__.py",
    "app/settings/probe_options.py",
    "app/commands/__init__.py",
    "app/commands/inspect.py",
    "app/commands/probe.py",
    "app/arguments.py",
    "app/exits.py",
    "app/printer.py",
    "app/process/__init__.py",
    "app/process/streams.py",
    "engine/files/__init__.py",
    "engine/files/causes.py",
    "engine/files/safe_files.py",
)
_IMPORT = re.compile(r"^([ \t]*(?:from|import) )(?=(?:api|app|engine)[. ])", re.MULTILINE)
_MAIN = '"""Finds out what a server of a language model does with stops."""\n'
# The engine's own exports need its other modules.
_ENGINE = '"""The modules of the engine that the probe needs."""\n'


def write_package(root: Path, folder: Path) -> Path:
    """Write the package into a folder, from the tree of the application; return its folder."""
    package = folder / NAME
    for part in PARTS:
        source = root / part
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            target = package / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            target.write_text(_IMPORT.sub(rf"\g<1>{NAME}.", text), encoding="utf-8")
    (package / "__init__.py").write_text(_MAIN, encoding="utf-8")
    (package / "engine" / "__init__.py").write_text(_ENGINE, encoding="utf-8")
    return package


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Puts the package into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the package and include it."""
        root = Path(self.root).parents[1]
        package = write_package(root, Path(tempfile.mkdtemp(prefix="fullstop-probe-")))
        build_data["force_include"][str(package)] = NAME
