"""The leading and the following side of one batch: equal rows and caches, whoever sampled."""

from pathlib import Path
from typing import Any, cast

import pytest

from engine.distributed.follower import FollowingBatch
from engine.distributed.leader import LeadingBatch
from engine.distributed.ranks import Ranks
from engine.errors import EngineError
from engine.inference.backend import BatchLimits, Step
from engine.inference.sampling import PromptScorer
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.shared_beginnings import SharedBeginnings
from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize
from engine.values.request import CacheOwner
from engine.values.tokens import PromptScores, PromptScoring
from tests.support.scripted import Stage

CHUNK, ROWS = 8, 4
Order = tuple[str, tuple[Any, ...]]


class Recorder:
    """Connections that record their orders, and of which one is lost after a failed step."""

    def __init__(self) -> None:
        self.sent: list[Order] = []
        self.lost = ""

    def check(self) -> None:
        if self.lost:
            raise EngineError("rank 1 is lost")

    def send(self, order: str, *arguments: Any) -> None:
        self.check()
        self.sent.append((order, arguments))

    def fail_step(self, error: Exception) -> EngineError:
        self.lost = "a step failed"
        return EngineError(f"a step failed on rank 0 ({error})")

    def taken(self) -> list[Order]:
        sent, self.sent = self.sent, []
        return sent


class Both:
    """Two models of one tokenizer: the leader's says letters, the follower's would say digits."""

    def __init__(
        self, folder: Path, *, cache_bytes: int = 1 << 30, reads: StepReads | None = None
    ) -> None:
        letters, digits = [*"abcdefgh"], [*"12345678"]
        self.stage = Stage(folder / "one", {"go": letters, "on": letters}, pieces=letters + digits)
        other = Stage(folder / "two", {"go": digits, "on": digits}, pieces=letters + digits)
        self.recorder = Recorder()
        ranks = cast(Ranks, self.recorder)
        limits = BatchLimits(CHUNK, cache_bytes, ROWS, reads=reads)
        self.leading = LeadingBatch(self.stage.model, limits, ranks)
        self.followed = other.model
        self.following = FollowingBatch(self.followed, prefill_chunk=CHUNK, max_sequences=ROWS)
        self.follow()

    def prompt(self, text: str) -> list[int]:
        return self.stage.ids(f"<|start|>user:{text}<|end|><|go|>")

    def follow(self) -> list[Order]:
        """Let the follower do all that was announced; return it."""
        sent = self.recorder.taken()
        for order, arguments in sent:
            getattr(self.following, order)(*arguments)
        return sent

    def answer(
        self, tokens: list[int], steps: int, owner: str = "me", *, is_invalid: bool = False
    ) -> tuple[list[int], int]:
        """Decode a row on both; return its tokens and how many the cache spared."""
        sequence = BatchSequence(tokens, owner=CacheOwner(owner))
        row = self.leading.insert(sequence)
        drawn: list[int] = []
        while len(drawn) < steps:
            drawn += [token for token, _ in self.leading.step()[row].sampled]
        sequence.is_invalid = is_invalid  # as the check of rank 0's logits sets it
        self.leading.remove({row: 0})
        sent = self.follow()
        assert sent[0][0] == "follow_insert"
        assert sent[-1] == ("follow_remove", ([row], [drawn], [row] if is_invalid else []))
        return drawn, sequence.cached


def test_follower_caches_tokens_sampled_by_rank_0(tmp_path: Path) -> None:
    both = Both(tmp_path)
    first = both.prompt("go")
    drawn, cached = both.answer(first, 5)
    assert cached == 0
    assert drawn == [both.stage.id(letter) for letter in "abcde"]
    # The next turn continues after that answer; a follower that had kept its own digits would find
    # less of it, and say so.
    _, cached = both.answer([*first, *drawn, *both.prompt("on")], 3)
    assert cached == len(first) + len(drawn)


@pytest.mark.parametrize("is_invalid", [False, True])
def test_follower_evicts_the_prompts_that_rank_0_drops(tmp_path: Path, is_invalid: bool) -> None:
    both = Both(tmp_path)
    mine, other = both.prompt("go"), both.prompt("on")
    drawn, _ = both.answer(mine, 3, "me")
    both.answer(other, 3, "other", is_invalid=is_invalid)
    if not is_invalid:
        assert both.leading.forget_prompts("other")[0] == 1
        assert both.follow() == [("forget_prompts", ("other",))]
    # A follower that held other entries would evict the least recently used one, which is mine.
    assert both.answer([*mine, *drawn, *other], 3, "me")[1] == len(mine) + len(drawn)
    assert both.answer(other, 3, "other")[1] == 0


@pytest.mark.parametrize("cache_bytes", [1 << 30, 0])
def test_follower_shares_running_prompts_like_rank_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_bytes: int
) -> None:
    monkeypatch.setattr(SharedBeginnings, "worth_tokens", 4)
    both = Both(tmp_path, cache_bytes=cache_bytes)
    prompt = [5] * 30 + both.prompt("go")
    sequences = [BatchSequence([*prompt]) for _ in range(3)]
    rows = [both.leading.insert(sequence) for sequence in sequences]
    found: dict[int, list[int]] = {row: [] for row in rows}
    while min(map(len, found.values())) < 4:
        for row, one in both.leading.step().items():
            found[row] += [token for token, _ in one.sampled]
    late = BatchSequence([*prompt[:31], 7, 8])
    both.leading.insert(late)
    both.leading.step()
    both.follow()
    expected = [0, len(prompt) - 1, len(prompt) - 1, 31]
    assert [sequence.cached for sequence in (*sequences, late)] == expected
    assert [one.cached for one in both.following.sequences.values()] == expected


def test_follower_groups_sequences_like_rank_0(tmp_path: Path) -> None:
    both = Both(tmp_path, reads=StepReads(8, CacheSize(8)))
    lengths = {both.leading.insert(BatchSequence([length] * length)): length for length in (9, 600)}
    while len(both.leading._batch.decoding) < 2:
        both.leading.step()
    groups = [list(group.uids) for group in both.leading._batch.decoding.groups]
    both.follow()
    assert [[lengths[number] for number in group] for group in groups] == [[9], [600]]
    assert [list(group.uids) for group in both.following._batch.decoding.groups] == groups


def test_prompts_are_forgotten_on_rank_0_where_another_rank_is_lost(tmp_path: Path) -> None:
    both = Both(tmp_path)
    both.answer(both.prompt("go"), 3)
    both.recorder.lost = "its process has ended"
    assert both.leading.forget_prompts("me")[0] == 1


def test_follower_reports_divergence_from_rank_0(tmp_path: Path) -> None:
    both = Both(tmp_path)
    both.follow()
    with pytest.raises(
        EngineError, match="sequence 0 with 0 cached tokens, where rank 0 has sequence 3 with 2"
    ):
        both.following.follow_insert(both.prompt("go"), 3, 2, 0, 0, None, "me")


def test_a_step_that_fails_ends_all_processes(tmp_path: Path) -> None:
    both = Both(tmp_path)

    def fault(_: int) -> None:
        raise RuntimeError("no memory")

    both.leading.insert(BatchSequence(both.prompt("go")))
    both.stage.model.fault = fault
    with pytest.raises(EngineError, match=r"a step failed on rank 0 \(no memory\)"):
        both.leading.step()
    both.leading.reset()
    with pytest.raises(EngineError, match="is lost"):
        both.leading.insert(BatchSequence(both.prompt("go")))
    both.leading.close()
    assert ("close", ()) not in both.recorder.sent


def test_follower_scores_prompt_like_rank_0(tmp_path: Path) -> None:
    both = Both(tmp_path)
    prompt = [5] * 30 + both.prompt("go")
    scorer = PromptScorer(prompt, PromptScoring(12, top=3), 600)
    row = both.leading.insert(BatchSequence(prompt, scorer=scorer))
    scored: list[PromptScores] = []
    sampled: list[int] = []
    while not sampled:
        step = both.leading.step()
        scored += [one.scores for one in step.values() if one.scores is not None]
        sampled += [token for token, _ in step[row].sampled]
    both.leading.remove({row: 0})
    found: list[PromptScores] = []
    follow = both.following._step

    def followed(*order: int) -> Step:
        step = follow(*order)
        found.extend(one.scores for one in step.values() if one.scores is not None)
        return step

    both.following._step = followed  # type: ignore[method-assign,assignment]
    (order, arguments), *_ = both.follow()
    assert (order, arguments[5]) == ("follow_insert", 12)
    assert [one.token_ids for one in found] == [one.token_ids for one in scored]
    assert scored[0].start == found[0].start == 12
    assert both.followed.calls == both.stage.model.calls
