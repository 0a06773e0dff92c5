"""Which files hold a prompt's first tokens, and what a new cache adds to them."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.inference.cache.folder import TOKEN_BYTES, StoredFile
from engine.inference.cache.index import MIN_FILE_TOKENS, PrefixIndex, key_of


class Files:
    """An index of files that are written as the prompt cache writes them; memory holds nothing."""

    def __init__(self, *, is_cut_anywhere: bool = True, has_segments: bool = True) -> None:
        self.index = PrefixIndex(8, 0, is_cut_anywhere=is_cut_anywhere, has_segments=has_segments)
        self.keys: dict[str, bytes] = {}
        self.files: dict[str, StoredFile] = {}
        self.written = 0
        self._numbers = itertools.count()

    def keep(self, kept_with: str, ids: list[int], owner: str = "me") -> bool:
        """Write the keys and values of some tokens that files do not hold yet."""
        key = key_of(ids)
        start = self.index.start_of_file(owner, kept_with, key)
        if start is None:
            return False
        self.written += len(ids) - start
        self._add(owner, key, StoredFile(self._name(kept_with), kept_with, start, len(ids)))
        return True

    def snapshot(
        self, ids: list[int], *, can_trim: bool = False, size: int = 1, kept_with: str = "a"
    ) -> str:
        """Write a snapshot behind some tokens; return its name."""
        end, name = len(ids), self._name(kept_with)
        file = StoredFile(name, kept_with, end, end, True, can_trim, size)
        self._add("me", key_of(ids), file)
        return name

    def _name(self, kept_with: str) -> str:
        return f"file {next(self._numbers)} of {kept_with}"

    def _add(self, owner: str, key: bytes, file: StoredFile) -> None:
        self.keys[file.name], self.files[file.name] = key, file
        for name in self.index.add_file(owner, key, file):
            del self.files[name]

    def found(self, ids: list[int], owner: str = "me") -> list[int]:
        """Return the tokens that the files for a prompt give, as reading them would."""
        needed = self.index.needed_from_disk(owner, ids)
        if needed is None:
            return []
        tokens = b""
        for file, begin, end in needed.files:
            assert begin * TOKEN_BYTES == len(tokens)
            assert file.start <= begin < end <= file.end
            tokens += self.keys[file.name][begin * TOKEN_BYTES : end * TOKEN_BYTES]
        assert tokens in (b"", needed.key)
        return list(memoryview(needed.key).cast("I"))


def test_the_next_turn_finds_all_tokens_of_the_turn_before() -> None:
    files = Files()
    files.keep("a", list(range(100)))
    assert files.found([*range(100), 7, 8]) == list(range(100))


def test_at_least_one_token_is_left_to_be_read() -> None:
    files = Files()
    files.keep("a", list(range(100)))
    assert files.found(list(range(100))) == list(range(99))


def test_a_short_next_turn_is_written_alone() -> None:
    files = Files()
    files.keep("a", list(range(1000)))
    files.keep("a", list(range(1100)))
    assert files.written == 1100
    assert files.found([*range(1100), 5]) == list(range(1100))


def test_a_turn_of_a_few_tokens_is_not_written() -> None:
    files = Files()
    files.keep("a", list(range(1000)))
    assert not files.keep("a", list(range(1000 + MIN_FILE_TOKENS - 1)))


def test_a_turn_of_a_few_tokens_is_written_where_a_snapshot_ends_with_it() -> None:
    files = Files(is_cut_anywhere=False)
    files.keep("a", list(range(1000)))
    assert files.keep("a", list(range(1001)))


def test_a_conversation_of_many_turns_has_few_files_and_writes_each_token_a_few_times() -> None:
    files = Files()
    for turn in range(1, 129):
        files.keep("a", list(range(turn * 40)))
    assert len(files.files) <= 8
    assert files.written <= 128 * 40 * 8
    assert files.found([*range(128 * 40), 1]) == list(range(128 * 40))


def test_an_edit_in_the_middle_keeps_what_is_before_it_and_both_branches() -> None:
    files = Files()
    first, second = list(range(500)), [*range(200), *range(1000, 1300)]
    files.keep("a", first)
    files.keep("a", second)
    assert files.found([*first, 1]) == first
    assert files.found([*second, 1]) == second


def test_files_of_another_conversation_are_found_but_nothing_builds_on_them() -> None:
    files = Files()
    files.keep("a", list(range(300)))
    assert files.found([*range(300), 1]) == list(range(300))
    files.keep("b", list(range(400)))
    [of_b] = [file for file in files.files.values() if file.kept_with == "b"]
    assert of_b.start == 0


def test_files_of_another_owner_are_not_found() -> None:
    files = Files()
    files.keep("a", list(range(300)))
    assert files.found(list(range(300)), "another") == []


def test_a_file_that_is_gone_takes_with_it_what_builds_on_it() -> None:
    files = Files()
    files.keep("a", list(range(1000)))
    files.keep("a", list(range(1100)))
    first, second = files.files
    assert files.index.discard([first]) == [second]
    assert files.found([*range(1100), 1]) == []


def test_files_that_were_found_are_used_in_any_order_if_those_before_them_are_there() -> None:
    index = PrefixIndex(8, 0, is_cut_anywhere=False)

    def at(start: int, end: int, *, is_snapshot: bool = False) -> StoredFile:
        return StoredFile(f"{start}-{end}", "a", start, end, is_snapshot)

    both = [*range(50), *range(100, 190)]
    files = [
        ("me", key_of(range(90)), at(50, 90)),
        ("me", key_of(range(90)), at(90, 90, is_snapshot=True)),
        ("me", key_of(both), at(51, 140)),
        ("me", key_of(both), at(140, 140, is_snapshot=True)),
        ("me", key_of(range(50)), at(0, 50)),
        ("you", key_of(range(50)), StoredFile("yours", "b", 20, 50)),
    ]
    assert sorted(index.add_files(files)) == ["140-140", "51-140", "yours"]
    needed = index.needed_from_disk("me", [*range(90), 1])
    assert needed is not None
    assert needed.tokens == 90


def test_a_snapshot_serves_only_prompts_that_begin_with_all_of_it() -> None:
    files = Files(is_cut_anywhere=False)
    files.keep("a", list(range(100)))
    files.snapshot(list(range(100)))
    assert files.found([*range(99), 7, 8]) == []
    assert files.found([*range(100), 7]) == list(range(100))


def test_snapshots_share_the_keys_and_values_before_them() -> None:
    files = Files(is_cut_anywhere=False)
    for end in (100, 200, 300):
        files.keep("a", list(range(end)))
        files.snapshot(list(range(end)))
    assert files.written <= 100 + 200 + 300
    for at, reused in ((301, 300), (299, 200), (150, 100), (99, 0)):
        assert files.found([*range(at), 7]) == list(range(reused))


def test_a_snapshot_without_the_keys_and_values_before_it_is_of_no_use() -> None:
    files = Files(is_cut_anywhere=False)
    files.keep("a", list(range(100)))
    snapshot = files.snapshot(list(range(100)))
    [keys] = [name for name in files.files if name != snapshot]
    assert files.index.discard([keys]) == [snapshot]


def test_a_model_without_keys_and_values_needs_only_snapshots() -> None:
    files = Files(is_cut_anywhere=False, has_segments=False)
    files.snapshot(list(range(100)))
    assert files.found([*range(120), 7]) == list(range(100))


def test_a_snapshot_that_can_be_trimmed_serves_prompts_that_share_its_beginning() -> None:
    files = Files(is_cut_anywhere=False)
    files.keep("a", list(range(100)))
    files.snapshot(list(range(100)), can_trim=True)
    assert files.found([*range(80), 7, 8]) == list(range(80))


def test_of_too_many_snapshots_the_last_two_stay_and_some_all_along_the_conversation() -> None:
    files = Files(is_cut_anywhere=False)
    for end in (100, 110, 200, 300, 310, 320):
        files.keep("a", list(range(end)))
        files.snapshot(list(range(end)), size=10)
    surplus = files.index.surplus_files("me", "a", key_of(range(320)), 40)
    assert sorted(files.files[name].end for name in surplus) == [110, 300]


branches = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 400), st.integers(1, 150)),
    min_size=1,
    max_size=12,
)


@given(branches)
def test_whatever_was_kept_is_found_token_for_token(turns: list[tuple[str, int, int]]) -> None:
    files = Files()
    history: list[int] = []
    for number, (owner, at, more) in enumerate(turns):
        history = [*history[:at], *(1000 * (number + 1) + n for n in range(more))]
        files.keep(owner, history)
        wanted = [*history, 5]
        found = files.found(wanted)
        assert found == wanted[: len(found)]
        assert len(found) > len(history) - MIN_FILE_TOKENS
