"""The controls for sampling, made from the engine's table of options. Main thread."""

from engine import SAMPLING_OPTIONS
from ui.kit.controls.number_field import NumberField

_OPTIONS = {option.name: option for option in SAMPLING_OPTIONS}


def sampling_field(name: str) -> NumberField:
    """Return the control for a sampling option, by its name."""
    option = _OPTIONS[name]
    says = f"{option.title}: {option.help}" if option.help else option.title
    return NumberField(
        says, option.unset, option.least, option.most, option.step, is_whole=option.is_whole
    )
