"""Output formats other than JSON, as requests of open servers ask for them. Pure; any thread."""

from engine import OutputConstraint, TextForm


def regex_form(regex: str | None) -> OutputConstraint | None:
    """Return the constraint of a regular expression; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(regex=regex)) if regex else None


def choices_form(choices: list[str] | None) -> OutputConstraint | None:
    """Return the constraint of a list of texts; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(choices=tuple(choices))) if choices else None


def grammar_form(grammar: str | None) -> OutputConstraint | None:
    """Return the constraint of a grammar; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(grammar=grammar)) if grammar else None
