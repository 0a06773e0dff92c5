"""The states of tool servers, in words. Pure; main thread."""

from engine import counted
from ui.records.tools import ServerStage, ServerState, ToolsInUse


def stage_words(server: ServerState) -> str:
    """Return the state of a server in a few words, or the sentences about its problem."""
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


def chip_words(servers: tuple[ServerState, ...], choice: ToolsInUse) -> tuple[str, str]:
    """Return the words of the Tools button, and its accessible name."""
    used = [one for one in servers if one.name in choice.servers]
    lost = [one for one in used if one.stage is ServerStage.FAILED]
    if lost:
        return "Tools ⚠", f"Tools: {lost[0].problem}"
    if not used:
        return "Tools", "Tools: none in this conversation"
    count = sum(choice.uses(tool) for one in used for tool in one.tools)
    names = ", ".join(one.name for one in used)
    return f"Tools {len(used)}", f"Tools of {names}: {counted(count, 'tool')} known"
