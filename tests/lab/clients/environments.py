"""Environments of their own for client programs, in a temporary folder.

Packages come from PyPI and npm through their ordinary clients, pip (or uv, which is faster) and
npm; the agents' programs are in packages of npm of their own, one for each platform.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


class InstallFailed(SystemExit):
    """A package cannot be installed; the message says what its installer said."""


def python_environment(folder: Path, *packages: str) -> Path:
    """Make a virtual environment that holds packages; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is not None:
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        install = [str(python), "-m", "pip", "install", "--quiet"]
    _run([*install, *packages])
    return python


def node_environment(folder: Path, *packages: str) -> Path:
    """Install packages under a prefix; return the folder of their programs."""
    folder.mkdir(parents=True, exist_ok=True)
    # With this file, npm does not mistake a package's name for a folder beside it.
    (folder / "package.json").write_text('{"private": true}')
    npm = ["npm", "install", "--no-fund", "--no-audit", "--loglevel=error"]
    _run([*npm, *packages], folder)
    return folder / "node_modules" / ".bin"


def bare_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a program that knows nothing of its user; its home is separate."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}


@dataclass(frozen=True)
class Agent:
    """A program that is installed, and a folder of its own for each case."""

    program: Path
    folder: Path

    def run(
        self, *arguments: str, case: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it once in the folder of a case, with its own home folder there."""
        work = self.folder / case / "work"
        work.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            [self.program, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=work,
            env=bare_environment(self.folder / case / "home", **variables),
            timeout=180,
            check=False,
        )


def _run(command: list[str], folder: Path | None = None) -> None:
    """Run a command whose output matters only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise InstallFailed(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
