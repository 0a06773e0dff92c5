"""The groups of like length read the fewest bytes of all, and their memory is never exceeded."""

from collections.abc import Iterator
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize

MIB = 1 << 20
LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=6)
READS = st.builds(
    StepReads,
    st.integers(0, 2000),
    st.builds(
        CacheSize,
        st.integers(0, 3),
        st.integers(0, 100),
        st.sampled_from([(), ((512, 1),), ((1024, 2),)]),
    ),
    st.integers(0, 4000),
    st.floats(0.05, 1.0),
)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *others = items
    for found in partitions(others):
        yield [[first], *found]
        for index, part in enumerate(found):
            yield [*found[:index], [first, *part], *found[index + 1 :]]


def memory(reads: StepReads, groups: list[list[int]]) -> int:
    return sum(len(group) * reads.cache.allocated_bytes(max(group)) for group in groups)


def cost(reads: StepReads, groups: list[list[int]]) -> float:
    return memory(reads, groups) + sum(reads.weights_for(len(group)) for group in groups)


def grouped(reads: StepReads, lengths: list[int]) -> list[list[int]]:
    ends, _ = reads.split(lengths)
    starts = (0, *ends[:-1])
    return [
        [length for length in lengths if start < length <= end]
        for start, end in zip(starts, ends, strict=True)
    ]


@given(READS, LENGTHS)
@settings(max_examples=200, deadline=None)
def test_split_reads_fewest_bytes_of_all_partitions(reads: StepReads, lengths: list[int]) -> None:
    groups = grouped(reads, lengths)
    assert sorted(chain.from_iterable(groups)) == sorted(lengths)
    assert all(groups)
    fewest = min(cost(reads, found) for found in partitions(lengths))
    assert abs(reads.split(lengths)[1] - fewest) < 1e-6 * fewest + 1e-6
    assert abs(cost(reads, groups) - fewest) < 1e-6 * fewest + 1e-6


@given(READS, LENGTHS, st.data())
@settings(max_examples=200, deadline=None)
def test_padded_bytes_are_never_exceeded_on_the_way(
    reads: StepReads, lengths: list[int], data: st.DataObject
) -> None:
    """Groups of sequences that are not as long yet take no more memory."""
    now = [data.draw(st.integers(1, length)) for length in lengths]
    assert memory(reads, grouped(reads, now)) <= reads.padded_bytes(lengths) + 1


def test_one_length_takes_as_much_memory_as_its_caches() -> None:
    reads = StepReads(100 * MIB, CacheSize(4096))
    assert reads.padded_bytes([300] * 8) == 8 * 512 * 4096
    assert reads.padded_bytes([]) == 0


def test_long_sequence_decodes_apart_from_many_short_ones() -> None:
    reads = StepReads(270 * MIB, CacheSize(23_040))
    assert reads.split([12_000, *[100] * 31])[0] == (256, 12_032)
    # The padding of one short sequence reads less than the weights.
    assert reads.split([12_000, 100])[0] == (12_032,)
    own = 31 * 256 * 23_040 + 12_032 * 23_040
    assert reads.padded_bytes([12_000, *[100] * 31]) == own + reads.weights


def test_groups_share_less_of_the_weights_of_experts() -> None:
    cache = CacheSize(98_304)
    dense = StepReads(15_000 * MIB, cache)
    experts = StepReads(1000 * MIB, cache, 14_000 * MIB, 8 / 128)
    lengths = [40_000, 500, 500, 500]
    assert len(dense.split(lengths)[0]) == 1
    assert len(experts.split(lengths)[0]) == 2
