"""A few well-known MCP servers, offered in the window of MCP servers. Pure values."""

from pathlib import Path

from ui.records.tool_servers import ToolServerConfig

_RUNTIMES = {
    "npx": "It runs with npx, which comes with Node.js.",
    "uvx": "It runs with uvx, which comes with uv.",
}
_FILES = "@modelcontextprotocol/server-filesystem"


def known_servers() -> tuple[tuple[str, str, ToolServerConfig], ...]:
    """Return title, purpose and configuration of each."""
    files = ("-y", _FILES, str(Path.home() / "Documents"))
    memory = ("-y", "@modelcontextprotocol/server-memory")
    browser = ("-y", "@playwright/mcp")
    github = "https://api.githubcopilot.com/mcp/"
    return (
        ("Files", "Read and write files in a folder", ToolServerConfig("files", "npx", files)),
        ("Web Pages", "Read the text of web pages", _python("fetch")),
        ("Browser", "Click and type in a web browser", ToolServerConfig("browser", "npx", browser)),
        ("Memory", "Remember facts between chats", ToolServerConfig("memory", "npx", memory)),
        ("Git", "Read and search a repository", _python("git")),
        ("Time", "Current time and time zones", _python("time")),
        ("GitHub", "Issues, pull requests and code", ToolServerConfig("github", url=github)),
    )


def note_on(config: ToolServerConfig) -> str:
    """Return what a server needs before it is added."""
    folder = (
        "The last argument is the folder that the model may use." if _FILES in config.args else ""
    )
    return " ".join(filter(None, (folder, _RUNTIMES.get(config.command, ""))))


def _python(name: str) -> ToolServerConfig:
    return ToolServerConfig(name, "uvx", (f"mcp-server-{name}",))
