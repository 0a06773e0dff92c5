"""A few well-known MCP servers, offered in the window of MCP servers. Pure values."""

from ui.records.tool_servers import ToolServerConfig

_RUNTIMES = {"npx": "Runs with Node.js", "uvx": "Runs with uv"}
_FILES = "@modelcontextprotocol/server-filesystem"


def known_servers() -> tuple[tuple[str, str, ToolServerConfig], ...]:
    """Return title, purpose and configuration of each."""
    files = ("-y", _FILES)
    browser = ("-y", "@playwright/mcp")
    github = "https://api.githubcopilot.com/mcp/"
    return (
        ("Files", "Read and write files in a folder", ToolServerConfig("files", "npx", files)),
        ("Web Pages", "Read the text of web pages", _python("fetch")),
        ("Browser", "Click and type in a web browser", ToolServerConfig("browser", "npx", browser)),
        ("Git", "Read and search a repository", _python("git")),
        ("Time", "Current time and time zones", _python("time")),
        ("GitHub", "Issues, pull requests and code", ToolServerConfig("github", url=github)),
    )


def needs_folder(config: ToolServerConfig) -> bool:
    """Return whether the path of a folder belongs at the end of the arguments."""
    return config.args[-1:] == (_FILES,)


def runtime_text(config: ToolServerConfig) -> str:
    """Return the program that must be installed, in words; empty for a service."""
    return _RUNTIMES.get(config.command, "")


def _python(name: str) -> ToolServerConfig:
    return ToolServerConfig(name, "uvx", (f"mcp-server-{name}",))
