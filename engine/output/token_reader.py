"""Reads the sampled tokens of one answer: finds ends and tags, and sends text to its channel.

It first checks whether an id ends the answer or is a tag. Text goes through the splitter to the
stop matcher of its channel. This module decides that the answer ends, never why. Pure; belongs to
the thread that feeds the answer.
"""

from collections.abc import Iterable

from engine.output.channel_text import ChannelText
from engine.output.channels import Part, Switch
from engine.output.endings import Ending, Endings
from engine.output.setting import AnswerSetup
from engine.stopping.record import Channel, StopKind

# Read at every token: looking up a name is faster than a member of an enumeration.
_THINKING = Channel.THINKING


class TokenReader:
    """Reads the tokens of one answer."""

    def __init__(self, setup: AnswerSetup, text: ChannelText) -> None:
        self.count = 0
        self.thinking_tokens = 0
        self.piece = ""
        self.residue = ""
        self.ending: Ending | None = None
        self.is_closed_by_tag = False
        self.text = text
        self.splitter = splitter = setup.setting.family.splitter(setup.setting.beginning)
        self._vocabulary = setup.vocabulary
        self._detokenizer = setup.detokenizer
        self._spans = text.spans
        self._least = setup.rules.min_tokens
        self._endings = Endings(setup.rules, setup.vocabulary, splitter.tags)
        # Ids that are more than their text, or have no text.
        self._marked = self._endings.ids.union(splitter.tags, setup.vocabulary.special)
        self._held = ""
        self._rest: list[str] = []
        text.enter(splitter.channel)

    def take(self, token_id: int) -> bool:
        """Take the next sampled id; return whether a stop or an EOS ends the answer."""
        is_armed = self.count >= self._least
        self.count += 1
        text = self.text
        thinks = text.channel is _THINKING
        if token_id in self._marked:
            self._take_marked(token_id, is_armed)
        elif self._spans is not None or self.splitter.scans_text:
            self._take_text(self._detokenizer.add(token_id), is_armed)
        else:  # the usual case
            self.piece = piece = self._detokenizer.add(token_id)
            if piece:
                text.deliver(piece, is_armed)
        if thinks or text.channel is _THINKING:
            self.thinking_tokens += 1
        return text.match is not None or self.ending is not None

    @property
    def is_armed(self) -> bool:
        """Whether a stop that completes on the last token counts."""
        return self.count > self._least

    @property
    def held(self) -> str:
        """The text that is held back now, because it could become a stop or a tag."""
        return self.text.held + self.splitter.held

    def _is_over(self) -> bool:
        return self.text.match is not None or self.ending is not None

    # -- ids with a meaning ----------------------------------------------------------------

    def _take_marked(self, token_id: int, is_armed: bool) -> None:
        """Take an id that can be an end, a tag, or a token whose text is skipped."""
        splitter = self.splitter
        ending = self._endings.ending(
            token_id, self.text.channel, is_armed=is_armed, in_header=splitter.in_header
        )
        is_tag = token_id in splitter.tags
        special = self._vocabulary.special.get(token_id)
        part = splitter.parts.get(token_id) if self.text.channel is not Channel.TOOL else None
        winner = None if ending is None else self._outdone(token_id, ending, part)
        if ending is not None and winner is None:
            self._end_by(ending, token_id if is_tag else None, is_armed)
        elif is_tag and not splitter.is_text(token_id):
            self.piece = ""
            truncated = self._detokenizer.cut(token_id)
            if truncated:
                self._take_text("", is_armed, truncated=truncated)
            self._split(splitter.take_tag(token_id), is_armed)
        elif part is not None:
            self.piece = ""
            self._split(splitter.feed(part), is_armed)
        elif is_tag or (special and self._is_part_of_call(token_id)):
            truncated = self._detokenizer.cut(token_id)
            self._take_text(self._name(token_id), is_armed, truncated=truncated)
        elif special is not None:
            self.piece = self._detokenizer.add(token_id)
            self._deliver(self.piece, is_armed)
        else:
            self._take_text(self._detokenizer.add(token_id), is_armed)
        if winner is StopKind.STOP_STRING and self.text.match is None:
            # The stop completes in text that was held back for a tag, which can no longer follow.
            self.release()

    def _own_text(self, token_id: int) -> str | None:
        """Return the text that a token would add; None if it is a tag or has no text here."""
        if token_id in self.splitter.tags:
            return self._name(token_id) if self.splitter.is_text(token_id) else None
        if token_id in self._vocabulary.special:
            return self._name(token_id) if self._is_part_of_call(token_id) else None
        return self._detokenizer.peek(token_id)

    def _name(self, token_id: int) -> str:
        """Return the name of a special token or a tag, which can be a part of a call."""
        return self.splitter.tags.get(token_id) or self._vocabulary.special[token_id]

    def _is_part_of_call(self, token_id: int) -> bool:
        return (
            self.text.channel is Channel.TOOL
            and self.splitter.keeps_specials
            and token_id not in self._vocabulary.eos
        )

    def _outdone(self, token_id: int, ending: Ending, part: str | None) -> StopKind | None:
        """Return what the text of an ending token completes, and so takes precedence over
        its id.
        """
        if ending.is_eos:
            return None
        if part is None:
            part = self._own_text(token_id)
        if part is None:
            return None
        text = self.splitter.preview(part)
        if text is None:
            return StopKind.TOOL_CALL
        return StopKind.STOP_STRING if self.text.would_match(text) else None

    def _end_by(self, ending: Ending, tag_id: int | None, is_armed: bool) -> None:
        """Note the end; first send the text that was held back before its token."""
        self.piece = ""
        self._held = self.release()
        if self.text.match is not None:
            return
        opening = None if tag_id is None else self.splitter.opens(tag_id)
        if opening is not None:
            self._switch(opening, is_armed)
        self.is_closed_by_tag = tag_id is not None and opening is None
        self.ending = ending

    # -- text ------------------------------------------------------------------------------

    def _take_text(self, text: str, is_armed: bool, *, truncated: str = "") -> None:
        """Take the text that the last token completed."""
        self.piece = piece = truncated + text
        if self._spans is not None and not self.splitter.in_header:
            if truncated:
                self._spans.add_truncated(truncated)
            if text or not truncated:
                self._spans.add(text)
        self._deliver(piece, is_armed)

    def _deliver(self, piece: str, is_armed: bool) -> None:
        if self.splitter.scans_text:
            self._split(self.splitter.feed(piece), is_armed)
        elif piece:
            self.text.deliver(piece, is_armed)

    def _split(self, parts: Iterable[Part], is_armed: bool) -> None:
        for part in parts:
            if self._is_over():
                self._drop(part)
            elif isinstance(part, Switch):
                self._switch(part, is_armed)
            elif part:
                self.text.deliver(part, is_armed)

    def _drop(self, part: Part) -> None:
        """Drop a part that comes after the end."""
        if isinstance(part, str):
            self._rest.append(part)
            return
        self._rest.append(part.tag)
        if part.to is Channel.THINKING:
            self.thinking_tokens += part.tokens + 1

    def _switch(self, switch: Switch, is_armed: bool) -> None:
        if self._spans is not None:
            self._spans.skip(switch.visible)
        held = self.text.flush()
        ending = self._endings.by_tag(switch.tag) if switch.tag and is_armed else None
        if ending is not None:
            self._held = held
        if ending is None or switch.to is not Channel.TEXT:
            # If a closing tag ends the answer, the channel that it would close stays open.
            self._change(switch, is_armed)
        if self.text.match is None:
            self.ending = ending

    def _change(self, switch: Switch, is_armed: bool) -> None:
        is_text = self.text.channel is Channel.TOOL and self.text.close_call(is_armed)
        if self.text.match is not None:
            return
        if not (is_text and switch.to is Channel.TEXT):
            self.text.flush()
            self.text.enter(switch.to, strips_space=switch.strips_space)
        if switch.to is Channel.THINKING:
            self.thinking_tokens += switch.tokens
        if switch.to is Channel.TOOL:
            self.text.open_call(switch.tool_name)

    def release(self) -> str:
        """Send the text that is held back, in the same way as all text; return it."""
        if self._is_over():
            return self._held
        is_armed = self.is_armed
        held = self.held
        self.residue = self._detokenizer.finish()
        if self.residue:
            if self._spans is not None and not self.splitter.in_header:
                self._spans.add_truncated(self.residue)
            self._split(self.splitter.feed(self.residue), is_armed)
        rest = self.splitter.finish()
        if self._is_over():
            self._rest.append(rest)
        elif rest:
            self.text.deliver(rest, is_armed)
        if self._is_over():
            return ""
        self.text.flush()
        return held

    def take_rest(self) -> str:
        """Return the text after the stop in its last piece, or held back as a possible tag."""
        return "".join(self._rest) + self.splitter.finish()
