"""The name of the probing program in reports. Pure; any thread."""

from importlib.metadata import PackageNotFoundError, version

# Installed as a part of the application, or by itself.
_DISTRIBUTIONS = ("fullstop-chat", "fullstop-probe")


def tool_name() -> str:
    """Return the name and the version of this probe."""
    for distribution in _DISTRIBUTIONS:
        try:
            return f"fullstop probe {version(distribution)}"
        except PackageNotFoundError:
            continue
    return "fullstop probe"
