"""Runs the tools that a build needs, and says which one failed and how. Blocks."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


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
