"""The words, icon and tone for the server's stage. Pure; main thread."""

from ui.server.server_switch import ServerSwitch
from ui.words.tones import Tone


def pill_of(switch: ServerSwitch) -> tuple[str, str, Tone]:
    """Return word, icon and tone of the server's stage."""
    if switch.stage == "failed":
        word = "Port taken" if switch.is_port_taken else "Could not start"
        return word, "fault", Tone.FAULT
    return {
        "off": ("Off", "cancelled", Tone.QUIET),
        "starting": ("Starting", "clock", Tone.BUSY),
        "on": ("On", "check", Tone.DONE),
        "stopping": ("Stopping", "clock", Tone.QUIET),
    }[switch.stage]


def reach_words(switch: ServerSwitch) -> str:
    """Return who can reach a server that is on."""
    return "Visible on your network." if switch.is_on_network else "For this computer only."
