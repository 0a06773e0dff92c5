"""Forms of an answer other than JSON, as open servers' requests ask for them. Pure; any thread."""

from engine import OutputConstraint, TextForm


def regex_form(regex: str | None) -> OutputConstraint | None:
    """Return the constraint of a regular expression; None where there is none, or an empty one."""
    return OutputConstraint(text_form=TextForm(regex=regex)) if regex else None


def choices_form(choices: list[str] | None) -> OutputConstraint | None:
    """Return the constraint of a list of texts; None where there is none, or an empty one."""
    return OutputConstraint(text_form=TextForm(choices=tuple(choices))) if choices else None


def grammar_form(grammar: str | None) -> OutputConstraint | None:
    """Return the constraint of a grammar; None where there is none, or an empty one."""
    return OutputConstraint(text_form=TextForm(grammar=grammar)) if grammar else None
