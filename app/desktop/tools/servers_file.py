"""The file of tool servers: private and written atomically; a damaged file is never overwritten.

Any thread; blocks while the disk works.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from app.desktop.tools.configuration import servers_from, text_of
from app.desktop.tools.server_fields import BadConfiguration
from app.folders.privacy import made_private
from app.folders.set_aside import set_aside
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from engine.files.whole_file import write_whole
from ui.records.tools import ToolServerConfig

FILE_NAME = "tool-servers.json"
_EMPTY = '{"mcpServers": {}}'


class ServersFile:
    """The file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.notice = ""

    def load(self) -> list[ToolServerConfig]:
        """Return the servers. A file that cannot be used is set aside, never overwritten."""
        try:
            text = read_bounded(self.path).decode("utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError:
            return self._set_aside("it is not text.")
        except OSError as error:
            return self._set_aside(f"{os_cause(error)}.")
        if "".join(text.split()) == "".join(_EMPTY.split()):
            return []
        try:
            return servers_from(text)
        except BadConfiguration as error:
            return self._set_aside(str(error))

    def save(self, configs: Iterable[ToolServerConfig]) -> None:
        """Write the servers; secrets are not in the file."""
        made_private(self.path.parent)
        # The temporary file is private from the moment it is created.
        write_whole(self.path, text_of(configs))

    def _set_aside(self, reason: str) -> list[ToolServerConfig]:
        kept = set_aside(self.path)
        self.notice = (
            f"The file of tool servers could not be used: {reason} {kept} Correct it there and "
            "paste it again."
        )
        return []


def claude_desktop_file(home: Path | None = None, platform: str = sys.platform) -> Path:
    """Return the path of Claude Desktop's configuration.

    https://modelcontextprotocol.io/docs/develop/connect-local-servers names the path on macOS.
    """
    home = home or Path.home()
    if platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        chosen = os.environ.get("XDG_CONFIG_HOME")
        folder = Path(chosen) if chosen and Path(chosen).is_absolute() else home / ".config"
    return folder / "Claude" / "claude_desktop_config.json"


def claude_desktop_servers(path: Path) -> list[ToolServerConfig]:
    """Return the servers of Claude Desktop's file, all of them switched off."""
    try:
        text = read_bounded(path).decode("utf-8")
    except FileNotFoundError as error:
        raise BadConfiguration(f"Claude Desktop has no servers here: {path} is missing.") from error
    except UnicodeDecodeError as error:
        raise BadConfiguration(f"{path} is not text in UTF-8.") from error
    except OSError as error:
        raise BadConfiguration(f"{path} could not be read: {os_cause(error)}.") from error
    if '"mcpServers"' not in text:
        raise BadConfiguration(f"{path} names no tool servers.")
    return servers_from(text)
