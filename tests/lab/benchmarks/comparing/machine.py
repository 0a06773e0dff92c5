"""Describes the machine of a comparison. Pure but for asking the system; any thread."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil


def machine(model: Path) -> dict[str, str]:
    """Return the facts that a reader of the numbers needs, each by its name."""
    return {
        "model": model.name,
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": _system(),
        "Python": platform.python_version(),
        "mlx": _version("mlx"),
        "mlx-lm": _version("mlx-lm"),
    }


def _processor() -> str:
    if platform.system() == "Darwin":
        words = ("sysctl", "-n", "machdep.cpu.brand_string")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _system() -> str:
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return f"{platform.system()} {platform.release()}, {platform.machine()}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
