"""A few well-known MCP servers, offered in the window of MCP servers. Pure values."""

from pathlib import Path

from ui.records.tool_servers import ToolServerConfig


def known_servers() -> tuple[tuple[str, str, ToolServerConfig], ...]:
    """Return title, purpose and configuration of each."""
    files = ("-y", "@modelcontextprotocol/server-filesystem", str(Path.home() / "Documents"))
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


def _python(name: str) -> ToolServerConfig:
    return ToolServerConfig(name, "uvx", (f"mcp-server-{name}",))
