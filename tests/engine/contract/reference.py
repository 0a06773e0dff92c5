"""The contract, written anew from its page: what a script of token ids must give, in full.

It looks at the whole script, tries every stop at every position, and reads everything again for
each token. ``reading`` says what the tokens mean; here is decided where the answer ends, why, and
what goes out (``ends``, ``outcomes``). Where the page is silent these readings were chosen:

- Text that may belong to a tag, and the text of a call that is none, *arrives* when it is known
  to be text; ``token_index`` and ``min_tokens`` go by the token on which that is known.
- A stop id or string that is an EOS of the model leaves everything as EOS leaves it: a complete
  call stays the reason. A stop in text that follows a complete call is the reason itself, and so
  is a limit there.
- A call that is still open at the end: EOS or a stop makes it a call if its text is one, with or
  without an end tag, because no limit cut it; but a stop before its first letter leaves it cut.
  A limit leaves it cut, unless calls of this family have no end tag. After EOS what is no call
  is text; else it is an unfinished call.
- An end tag that is the stop leaves a text that is no call unfinished.
- A call is whole as soon as its own text parses, with its closing mark or without; a stop that is
  kept is part of its text, so it can complete a call, and is dropped behind one that is whole.
- With ``ignore_eos``, an end of a call that is an EOS (``<|call|>``) closes the call and nothing
  else: the answer goes on, and ends for the reason that it then has.
- A cancel cuts matched text from the last characters and stays the reason.
- A token that completes a tag is structure: a stop fires on it under scope ``all`` only, and only
  if it is exactly the tag, in the channel which that tag opens or closes. Words of a header are no
  tag; a special token in one that is no tag counts under scope ``all``.
- ``held`` is text; the U+FFFD of a truncated character is none that was held.
- Where both limits are reached on the same token, the request's own is reported.
"""

from engine.stopping.record import Channel
from tests.engine.contract.outcomes import Outcome, outcome_of, text_of
from tests.engine.contract.writing.case import Case, first_reading
from tests.engine.contract.writing.ends import end_of, held_back


def expected(case: Case) -> Outcome:
    return outcome_of(case, end_of(case))


def shown_after_each_token(case: Case) -> list[tuple[str, str]]:
    """Return the text and the thinking that must have gone out after each token but the last."""
    count = end_of(case).count
    shown = []
    reading = first_reading(case)
    for token in case.script[: count - 1]:
        reading = reading.add(token)
        held = len(held_back(reading, case.rules)) - len(reading.undecided_text)
        chars = reading.chars[: len(reading.chars) - max(held, 0)]
        shown.append((text_of(chars, Channel.TEXT), text_of(chars, Channel.THINKING)))
    return shown
