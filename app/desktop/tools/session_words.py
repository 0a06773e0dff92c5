"""Messages for a person about a failed tool server, in whole sentences. Any thread."""

import logging

from mcp import MCPError

from app.desktop.tools.http import AnswerRefused
from app.desktop.tools.server_log import ServerLog, printable
from engine.files.causes import network_cause, os_cause
from ui.records.tools import ToolServerConfig

_OLDER = (
    " If it is an older server, which is reached with SSE, add it by Paste JSON, and write "
    '"type": "sse" beside its address.'
)
_log = logging.getLogger(__name__)


class SessionWords:
    """The messages for the failures of one server."""

    def __init__(self, config: ToolServerConfig, log: ServerLog) -> None:
        self._config = config
        self._log = log
        self.exit_words = ""

    @property
    def name(self) -> str:
        """The server, at the beginning of a sentence."""
        return f"The tool server “{self._config.name}”"

    @property
    def ended(self) -> str:
        """A sentence that it ended, with how and its last line."""
        return f"{self.name} stopped: {self.exit_words or 'it ended'}.{self.last_words}"

    @property
    def last_words(self) -> str:
        """Its last log line as another sentence; empty if it logged nothing."""
        last = next((one for one in reversed(self._log.lines) if not one.startswith("— ")), "")
        return f" Its last words: “{printable(last, 200)}”." if last.strip() else ""

    def failed(self, error: BaseException) -> str:
        """Return the message for an error."""
        if self.exit_words:
            return self.ended
        _log.info("the tool server %s failed", self._config.name, exc_info=error)
        if isinstance(error, OSError):
            # Our own errors are sentences.
            cause = str(error) if error.strerror is None else f"{os_cause(error).capitalize()}."
            return f"{self.name} could not be started. {cause}"
        if isinstance(error, MCPError):
            said = f"{self.name} could not be used: {printable(str(error), 300).rstrip('.')}."
            return said if self._config.is_program or self._config.is_sse else said + _OLDER
        if self._config.is_program:
            said = printable(str(error), 300) or type(error).__name__
            return f"{self.name} does not speak MCP as it should: {said}"
        cause = str(error) if isinstance(error, AnswerRefused) else network_cause(error)
        return f"{self.name} could not be reached at its address: {cause}."
