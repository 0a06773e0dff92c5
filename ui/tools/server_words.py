"""How a tool server is doing, in words. Pure; main thread."""

from engine import counted
from ui.records.tooling.servers import ServerStage, ServerState


def stage_words(server: ServerState) -> str:
    """Return how a server is doing, in a few words or in the sentences of its problem."""
    match server.stage:
        case ServerStage.OFF:
            return "switched off"
        case ServerStage.STOPPED:
            return "starts when it is needed"
        case ServerStage.STARTING:
            return "starting…"
        case ServerStage.READY:
            return f"running, {counted(len(server.tools), 'tool')}"
        case ServerStage.FAILED:
            return server.problem


def no_tools_words(server: ServerState) -> str:
    """Return why no tools of a server are listed."""
    match server.stage:
        case ServerStage.OFF:
            return "Its tools are listed here once it is switched on."
        case ServerStage.STOPPED | ServerStage.STARTING:
            return "Its tools are listed here once it has started."
        case ServerStage.READY:
            return "It offers no tools."
        case ServerStage.FAILED:
            return "It is not running, so its tools are not known. Its log may say why."
