"""How the reference reads a script of token ids: characters, channels, calls.

Written from the contract's page alone, for clarity and not for speed; knows nothing of the
product. Where the page is silent these readings were chosen:

- A tag that is one token of the vocabulary is known by that token only: its letters, typed, are
  text. Where it opens and closes nothing it is left out and changes nothing. A tag of several
  tokens is known by its text, whichever tokens spell it, special ones among them.
- White space right after ``</think>`` and after a complete call is what a template puts there;
  so is that at the beginning of reasoning that the answer itself opened.
- Inside a call only its end is structure (and, where calls have no end tag, the next beginning).
  Special tokens inside a call between tags are its text, because parsers need them.
- What turns out to be no call is text of the answer, or of the reasoning in which it began, white
  space after it included. Tags with nothing between them leave nothing. A call in reasoning leads
  back to it, and the end of reasoning ends such a call.
- Harmony: a header goes from ``<|start|>`` (or ``<|channel|>`` where that is missing) to
  ``<|message|>``. Outside of headers and messages plain tokens are the answer's text, and so is
  what follows a role that is neither a recipient nor the name of a channel.
- In a raw prompt's answer all tags are text, and so is every special token but EOS.
- Special tokens that are no tags are skipped as if they were not there: text and halves of
  characters around them join. So are those in the arguments of a Harmony call, and
  an EOS that is ignored.
- A tag counts as thinking if thinking is open before or after it, also where a stop ends the
  answer at it; a header if it opens thinking; a token of a call never, whatever its text becomes.
"""

import codecs
import re

from engine.stopping.record import Channel
from tests.engine.contract.reading_state import Char, ReadingState, Tag, Undecided
from tests.engine.contract.writing.calls import (
    Calls,
    opened_by,
    parsed_arguments,
    parsed_calls,
)
from tests.engine.contract.writing.families import HARMONY_MARKERS

_ENDS = ("<|end|>", "<|call|>", "<|return|>")


class Reading(ReadingState):
    """What the script says so far, and how one more token changes it."""

    @property
    def _tool(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The tags around a call, where tools are offered."""
        return self.model.family.tool if self.has_tools else None

    # -- tokens ----------------------------------------------------------------------------

    def add(self, token: int) -> "Reading":
        after = self._copy()
        after.tags = ()
        after.has_rest = False
        was_thinking = after.channel is Channel.THINKING and not after.in_header
        after._take(token)
        is_thinking = after.channel is Channel.THINKING and not after.in_header
        if was_thinking or is_thinking:
            after.thinking |= {self.count}
        after.count += 1
        return after

    def _take(self, token: int) -> None:
        if self.header is not None:
            self.header_tokens += (self.count,)
        text = None if self.is_raw else self.tag_of(token)
        special = self.model.special.get(token)
        if text is not None:
            if self.channel is Channel.TOOL and not self._means_something(text):
                self.plain += (token,)
                self._write_text(text, self.count)
                return
            self._end_character()
            if self._at_role and text not in (*_ENDS, "<|start|>"):
                self._go_on_with_header()
            self._decide_all()
            self.has_text = True
            self.plain += (token,)
            if self.model.family.is_harmony:
                self.take_marker(text)
            else:
                self._take_tag(text, self.count)
        elif special is None:
            self._write_token(token)
        elif token in self.model.eos:
            return
        elif self.is_raw:
            self._write_token(token)
        elif self.channel is Channel.TOOL and not self.model.family.is_harmony:
            self.plain += (token,)
            self._write_text(special, self.count)
        elif any(special in tag for tag in self._long_tags()):
            ghosts = tuple(Undecided(char, self.count, True) for char in special)
            self.undecided += ghosts
            self._decide()

    def tag_of(self, token: int) -> str | None:
        """Return the tag that one token is, None for any other token."""
        family = self.model.family
        ids = self.model.ids
        if family.is_harmony:
            return next((text for text in HARMONY_MARKERS if ids[text] == token), None)
        for tag in (*(family.think or ()), *(self._tool or ())):
            if len(tag) == 1 and ids[tag[0]] == token:
                return tag[0]
        return None

    def _write_token(self, token: int) -> None:
        raw = self.model.raw
        if raw is not None:
            piece = raw[token]
            if not self.has_text and self.model.kind == "sentence-piece" and piece:
                piece = piece.removeprefix(b" ")
            self.has_text = self.has_text or bool(raw[token])
            self._write_bytes(piece, self.count)
            return
        before = self.model.decode(self.plain) if self.plain else ""
        self.plain += (token,)
        now = self.model.decode(self.plain)
        assert now.startswith(before), "these decoders never take back what they said"
        self._write_bytes(now[len(before) :].encode(), self.count)

    def _write_text(self, text: str, token: int) -> None:
        self.has_text = True
        self._write_bytes(text.encode(), token)

    def _write_bytes(self, piece: bytes, token: int) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self.half + piece)
        self.half = decoder.getstate()[0]
        self._write(text, token)

    def _write(self, text: str, token: int) -> None:
        if self.header is not None and not self._at_role:
            self.header += text
            return
        self.undecided += tuple(Undecided(char, token, False) for char in text)
        self._decide()

    @property
    def _at_role(self) -> bool:
        """Whether only the role of a header is there: text behind it may be the answer's."""
        return self.header in ("assistant", "<|start|>assistant")

    @property
    def in_header(self) -> bool:
        """Whether a header is open that is certainly one."""
        return self.header is not None and not self._at_role

    def _decide_header(self) -> None:
        """Find out whether what follows a role is the header's."""
        words = re.sub(r"\s+", " ", self.undecided_text).strip()
        recipients = [f"{channel}to=" for channel in ("", "analysis ", "commentary ", "final ")]
        if any(words.startswith(one) for one in recipients):
            self._go_on_with_header()
        elif not any(one.startswith(words) for one in recipients):
            self.header, self.in_message = None, True
            self._decide_all()

    def _go_on_with_header(self) -> None:
        self.header = (self.header or "") + self.undecided_text
        self.undecided = ()

    def _end_character(self) -> None:
        if self.half:
            self.half = b""
            self._write("\ufffd", self.count)

    # -- tags of several tokens ------------------------------------------------------------

    def _long_tags(self) -> list[tuple[str, ...]]:
        """Return the tags of several tokens that mean something in the open channel."""
        family = self.model.family
        if self.is_raw or family.is_harmony:
            return []
        think, tool = family.think or (), self._tool or ()
        found: list[tuple[str, ...]] = []
        if self.channel is Channel.TEXT:
            found = [*think[:1], *tool[:1]]
        elif self.channel is Channel.THINKING:
            found = [*think[1:], *tool[:1]]
        else:
            found = [*tool[1:], *(think[1:] if self.outer is Channel.THINKING else ())]
        return [tag for tag in found if len(tag) > 1]

    def _decide(self) -> None:
        """Find whole tags in undecided text, and release text that can no longer be a tag."""
        if self._at_role:
            self._decide_header()
            return
        while True:
            seen = "".join(item.char for item in self.undecided)
            tags = ["".join(tag) for tag in self._long_tags()]
            whole = [(seen.index(tag), tag) for tag in tags if tag in seen]
            if not whole:
                break
            at, tag = min(whole)
            tokens = {item.token for item in self.undecided[at : at + len(tag)]}
            self._emit(self.undecided[:at])
            rest = self.undecided[at + len(tag) :]
            self.undecided = ()
            was_thinking = self.channel is Channel.THINKING
            self._take_tag(tag, self.count)
            if was_thinking or self.channel is Channel.THINKING:
                self.thinking |= tokens
            self.undecided = rest
        kept = max(
            (n for tag in tags for n in range(1, len(tag)) if seen.endswith(tag[:n])), default=0
        )
        cut = len(self.undecided) - kept
        known, self.undecided = self.undecided[:cut], self.undecided[cut:]
        self._emit(known)

    def _decide_all(self) -> None:
        known, self.undecided = self.undecided, ()
        self._emit(known)

    # -- structure -------------------------------------------------------------------------

    def _means_something(self, tag: str) -> bool:
        """Return whether a tag is structure inside a call."""
        family = self.model.family
        if family.is_harmony:
            return True
        start, end = self._tool or ((), ())
        if self.outer is Channel.THINKING and tag == "".join((family.think or ((), ()))[1]):
            return True
        return tag == "".join(end) or (not end and tag == "".join(start))

    def _take_tag(self, tag: str, token: int) -> None:
        family = self.model.family
        think = ["".join(tag) for tag in family.think or ((), ())]
        tool = ["".join(tag) for tag in self._tool or ((), ())]
        channel = self.channel
        known, offset = len(self.chars), self.length_of(channel)
        if channel is Channel.TOOL:
            self.close_call()
            if tag == tool[0]:
                known, offset = len(self.chars), 0
                self._switch(Channel.TOOL)
            elif tag == think[1]:
                self._switch(Channel.TEXT, strips=True)
        elif tag == tool[0] and self._tool:
            self.outer = channel
            self._switch(Channel.TOOL)
            channel, offset = Channel.TOOL, 0
        elif channel is Channel.TEXT and tag == think[0]:
            self._switch(Channel.THINKING, strips=True)
            channel, offset = Channel.THINKING, self.length_of(Channel.THINKING)
        elif channel is Channel.THINKING and tag == think[1]:
            self._switch(Channel.TEXT, strips=True)
        self.tags += (Tag(tag, channel, known, offset),)

    def close_call(self) -> None:
        """End the open call: it is complete, or else text of the answer."""
        raw = self.part_text
        found, rest = self.parsed(raw) or ((), raw)
        self.begun = ""
        self._switch(self.outer, strips=not rest and not self.model.family.is_harmony)
        self.chars += tuple(Char(char, self.outer, self.part) for char in rest)
        self.calls += found
        self.has_rest = bool(rest)

    def parsed(self, raw: str, *, is_cut: bool = False) -> tuple[Calls, str] | None:
        """Return the calls in a text, with what the prompt holds of it, and the text behind them.

        None where it begins with no call.
        """
        family = self.model.family
        if family.is_harmony:
            return parsed_arguments(self.begun + raw, self.name, is_cut=is_cut)
        found = parsed_calls(
            self.begun + raw,
            has_brackets=family.style == "brackets",
            is_cut=is_cut,
            marks=tuple("".join(tag) for tag in family.tool or () if tag),
        )
        if found is None:
            return None
        # The text behind a call ends where the whole text does.
        return found[0], raw[len(raw.rstrip()) - len(found[1]) :] if found[1] else ""

    # -- Harmony ---------------------------------------------------------------------------

    def take_marker(self, marker: str) -> None:
        channel, known, offset = self.channel, len(self.chars), self.length_of(self.channel)
        if marker == "<|start|>" or (marker == "<|channel|>" and self.header is None):
            self._end_message()
            self.header, self.header_tokens = "", (self.count,)
        if self.header is not None and marker not in (*_ENDS, "<|message|>"):
            self.header += marker
        elif marker == "<|message|>" and self.header is not None:
            self._open_message(self.header)
            channel, offset = self.channel, self.length_of(self.channel)
        elif marker in _ENDS:
            self._end_message()
        self.tags += (Tag(marker, channel, known, offset),)

    def _open_message(self, header: str) -> None:
        channel, self.name = opened_by(header)
        if channel is Channel.THINKING:
            self.thinking |= set(self.header_tokens)
        self.header = None
        self.in_message = True
        self._switch(channel)

    def _end_message(self) -> None:
        if self.header is None and self.channel is Channel.TOOL:
            self.close_call()
        self.header = None
        self.in_message = False
        self._switch(Channel.TEXT)

    # -- what is there ---------------------------------------------------------------------

    def silent(self) -> "Reading":
        """Return the same state, in which no tag has just been completed."""
        after = self._copy()
        after.tags = ()
        return after

    def settled(self) -> "Reading":
        """Return the state in which a possible tag turned out to be text."""
        after = self.silent()
        after._decide_all()
        return after

    def closed(self) -> "Reading":
        """Return the state when the open call ends with the text that is known to be its own."""
        after = self._copy()
        after.close_call()
        return after

    def flushed(self) -> "Reading":
        """Return the state when nothing more comes."""
        after = self._copy()
        after.tags = ()
        if after.in_header:
            after.half = b""
            return after
        after._decide_all()
        after._end_character()
        after._decide_all()
        return after
