"""Which files hold a prompt's beginning, and what a new cache adds to them."""

from hypothesis import given
from hypothesis import strategies as st

from engine.inference.cache.index import LEAST_TOKENS, TOKEN_BYTES, Chains, SegmentHeader, key_of
from engine.values.request import CacheOwner

ME = CacheOwner("me", "a")


class Kept:
    """Chains that are written to as the disk cache writes to them."""

    def __init__(self) -> None:
        self.chains = Chains()
        self.segments: dict[str, SegmentHeader] = {}
        self.written = 0

    def keep(self, kept_with: str, ids: list[int]) -> bool:
        owner, tokens = CacheOwner("me", kept_with), key_of(ids)
        addition = self.chains.addition(owner, tokens)
        if addition is None:
            return False
        own = tokens[addition.start * TOKEN_BYTES :]
        name = f"file {len(self.segments)} of {kept_with}"
        segment = SegmentHeader("model", owner, addition.parent, addition.start, own)
        self.segments[name] = segment
        self.chains.add(name, segment)
        assert self.chains.discard(addition.superseded) == []
        self.written += len(own) // TOKEN_BYTES
        return True

    def found(self, ids: list[int]) -> list[int]:
        """Return the tokens that the files for a prompt give, as reading them would."""
        found = self.chains.longest("me", key_of(ids), len(ids) - 1)
        if found is None:
            return []
        tokens = b""
        for piece in found.pieces:
            assert piece.segment.start * TOKEN_BYTES == len(tokens)
            tokens += piece.segment.tokens[: (piece.end - piece.segment.start) * TOKEN_BYTES]
        assert len(tokens) == found.tokens * TOKEN_BYTES
        return list(memoryview(tokens).cast("I"))


def test_the_next_turn_finds_all_tokens_of_the_turn_before() -> None:
    kept = Kept()
    kept.keep("a", list(range(100)))
    assert kept.found([*range(100), 7, 8]) == list(range(100))


def test_at_least_one_token_is_left_to_be_read() -> None:
    kept = Kept()
    kept.keep("a", list(range(100)))
    assert kept.found(list(range(100))) == list(range(99))


def test_a_short_next_turn_is_written_alone() -> None:
    kept = Kept()
    kept.keep("a", list(range(1000)))
    kept.keep("a", list(range(1100)))
    assert kept.written == 1100
    assert kept.found([*range(1100), 5]) == list(range(1100))


def test_a_turn_of_a_few_tokens_is_not_written() -> None:
    kept = Kept()
    kept.keep("a", list(range(1000)))
    assert not kept.keep("a", list(range(1000 + LEAST_TOKENS - 1)))


def test_a_chain_of_many_turns_has_few_files_and_writes_each_token_a_few_times() -> None:
    kept = Kept()
    for turn in range(1, 129):
        kept.keep("a", list(range(turn * 40)))
    assert len(kept.chains) <= 8
    assert kept.written <= 128 * 40 * 8
    assert kept.found([*range(128 * 40), 1]) == list(range(128 * 40))


def test_an_edit_in_the_middle_keeps_what_is_before_it_and_both_branches() -> None:
    kept = Kept()
    first, second = list(range(500)), [*range(200), *range(1000, 1300)]
    kept.keep("a", first)
    kept.keep("a", second)
    assert kept.found([*first, 1]) == first
    assert kept.found([*second, 1]) == second


def test_segments_of_another_conversation_are_found_but_nothing_builds_on_them() -> None:
    kept = Kept()
    kept.keep("a", list(range(300)))
    assert kept.found([*range(300), 1]) == list(range(300))
    kept.keep("b", list(range(400)))
    [of_b] = [one for one in kept.segments.values() if one.owner.kept_with == "b"]
    assert (of_b.parent, of_b.start) == ("", 0)


def test_segments_of_another_owner_are_not_found() -> None:
    kept = Kept()
    kept.keep("a", list(range(300)))
    assert kept.chains.longest("another", key_of(range(300)), 299) is None


def test_a_file_that_is_gone_takes_with_it_what_builds_on_it() -> None:
    kept = Kept()
    kept.keep("a", list(range(1000)))
    kept.keep("a", list(range(1100)))
    first, second = kept.segments
    assert kept.chains.discard([first]) == [second]
    assert kept.found([*range(1100), 1]) == []


def test_a_segment_without_its_parent_is_left_out() -> None:
    chains = Chains()
    whole = SegmentHeader("model", ME, "", 0, key_of(range(50)))
    child = SegmentHeader("model", ME, "whole", 50, key_of(range(50, 90)))
    beyond = SegmentHeader("model", ME, "whole", 51, key_of(range(50, 90)))
    lost = SegmentHeader("model", ME, "nowhere", 50, key_of(range(50, 90)))
    left = chains.add_all([("lost", lost), ("child", child), ("beyond", beyond), ("whole", whole)])
    assert sorted(left) == ["beyond", "lost"]
    assert len(chains) == 2


def test_a_snapshot_serves_only_prompts_that_begin_with_all_of_it() -> None:
    chains = Chains()
    chains.add("one", SegmentHeader("model", ME, "", 0, key_of(range(100)), is_whole=True))
    assert chains.longest("me", key_of([*range(99), 7, 8]), 100) is None
    found = chains.longest("me", key_of([*range(100), 7]), 100)
    assert found is not None
    assert found.tokens == 100


def test_a_snapshot_that_can_be_trimmed_serves_prompts_that_share_its_beginning() -> None:
    chains = Chains()
    segment = SegmentHeader("model", ME, "", 0, key_of(range(100)), is_whole=True, can_trim=True)
    chains.add("one", segment)
    found = chains.longest("me", key_of([*range(80), 7, 8]), 81)
    assert found is not None
    assert found.tokens == 80


def test_of_earlier_snapshots_the_longest_stays() -> None:
    chains = Chains()
    for name, length in (("prompt", 100), ("answer", 140)):
        chains.add(name, SegmentHeader("model", ME, "", 0, key_of(range(length)), is_whole=True))
    addition = chains.snapshot(ME, key_of(range(200)))
    assert addition is not None
    assert addition.superseded == ("prompt",)
    assert chains.snapshot(ME, key_of(range(140))) is None


branches = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 400), st.integers(1, 150)),
    min_size=1,
    max_size=12,
)


@given(branches)
def test_whatever_was_kept_is_found_token_for_token(turns: list[tuple[str, int, int]]) -> None:
    kept = Kept()
    history: list[int] = []
    for number, (owner, at, more) in enumerate(turns):
        history = [*history[:at], *(1000 * (number + 1) + n for n in range(more))]
        kept.keep(owner, history)
        wanted = [*history, 5]
        found = kept.found(wanted)
        assert found == wanted[: len(found)]
        assert len(found) > len(history) - LEAST_TOKENS
