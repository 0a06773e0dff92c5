"""Says in words which tokens were guessed, and how many guesses were right.

Pure; knows no Qt. Any thread.
"""

from engine import Speculation, TokenOrigin, acceptance, counted

ORIGIN_NAMES = {
    TokenOrigin.SAMPLED: "",
    TokenOrigin.LOOKUP: "Guessed: repetition",
    TokenOrigin.PREDICTION: "Guessed: prediction",
    TokenOrigin.DRAFT: "Guessed: draft model",
    TokenOrigin.FORCED: "Forced",
    TokenOrigin.BUDGET: "Forced: budget",
}
"""By a token's origin, its name in a table; empty for a token that the model drew alone."""

ORIGIN_WORDS = {
    TokenOrigin.SAMPLED: "",
    TokenOrigin.LOOKUP: "guessed because the text repeats, and confirmed by the model",
    TokenOrigin.PREDICTION: "guessed from the request's prediction, and confirmed by the model",
    TokenOrigin.DRAFT: "guessed by the draft model, and confirmed by the model",
    TokenOrigin.FORCED: "forced: the schema or the call allowed no other token",
    TokenOrigin.BUDGET: "forced: the thinking budget was used up, and this ends the thinking",
}
"""By a token's origin, what it means in words; empty for a token that the model drew alone."""


def guess_words(found: Speculation, output_tokens: int) -> str:
    """Return in sentences what guessing did for an answer.

    Args:
        found: The counts of the answer.
        output_tokens: All its tokens.
    """
    if not found.passes:
        return "No tokens were guessed: each of them took a pass of its own."
    said = []
    if found.guessed:
        passes = counted(found.passes, "pass", "passes")
        said.append(f"Guesses were checked in {passes}: the model confirmed {acceptance(found)}.")
    if found.forced:
        were = "was" if found.forced == 1 else "were"
        forced = counted(found.forced, "token")
        said.append(f"{forced} {were} forced, because the schema or the call allowed no other.")
    predicted = found.prediction_accepted + found.prediction_rejected
    if predicted:
        said.append(
            f"Of {counted(predicted, 'token')} of the request's prediction, "
            f"{found.prediction_accepted:,} were confirmed."
        )
    saved = found.accepted + found.forced
    if saved:
        of_all = counted(output_tokens, "token")
        said.append(f"{saved:,} of {of_all} took no pass of their own.")
    return " ".join(said)
