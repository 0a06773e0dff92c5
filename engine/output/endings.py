"""Decides whether a token id ends the answer at the place where it occurs.

Knows nothing of stops within text. Pure; belongs to the thread that feeds the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules, StopScope


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an answer by one token, unless text before it ended the answer already."""

    kind: StopKind
    is_eos: bool = False
    rule: int = -1


class Endings:
    """The ids and tags that can end one answer."""

    def __init__(self, rules: StopRules, vocabulary: Vocabulary, tags: Mapping[int, str]) -> None:
        self._rules = rules
        self._tags = tags
        self._specials = vocabulary.special
        self._all_eos = vocabulary.eos
        self._eos = frozenset() if rules.ignore_eos else vocabulary.eos
        self._stop_ids = frozenset(rules.token_ids)
        self._rule_of = {string: number for number, string in enumerate(rules.strings)}
        texts = {
            **{token_id: vocabulary.text_of(token_id) for token_id in self._eos},
            **vocabulary.special,
            **tags,
        }
        # Stop strings that are exactly one token whose text never appears as text.
        self._named = {
            token_id: self._rule_of[text]
            for token_id, text in texts.items()
            if text in self._rule_of
        }
        self.ids = self._eos | self._stop_ids | frozenset(self._named)

    def ending(
        self, token_id: int, channel: Channel, *, is_armed: bool, in_header: bool
    ) -> Ending | None:
        """Return how the answer ends with this id; None if it continues."""
        is_eos = token_id in self._all_eos
        if is_armed:
            rule = self._named.get(token_id)
            if rule is not None:
                scope = self._rules.scope_of(self._rules.strings[rule])
                if self._counts(token_id, scope, channel, in_header):
                    return Ending(StopKind.STOP_STRING, is_eos, rule)
            if token_id in self._stop_ids and (
                is_eos or self._counts(token_id, self._rules.scope, channel, in_header)
            ):
                return Ending(StopKind.STOP_TOKEN, is_eos)
        return Ending(StopKind.EOS, is_eos) if token_id in self._eos else None

    def _counts(self, token_id: int, scope: StopScope, channel: Channel, in_header: bool) -> bool:
        if token_id in self._tags and token_id not in self._all_eos:
            return scope is StopScope.ALL
        if in_header:
            return scope is StopScope.ALL and token_id in self._specials
        return channel in scope.channels

    def by_tag(self, tag: str) -> Ending | None:
        """Return how the answer ends at a tag of several tokens; None if it continues."""
        rule = self._rule_of.get(tag)
        if rule is None or self._rules.scope_of(tag) is not StopScope.ALL:
            return None
        return Ending(StopKind.STOP_STRING, rule=rule)
