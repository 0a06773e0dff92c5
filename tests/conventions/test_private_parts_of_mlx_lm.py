"""The private parts of mlx-lm that the product uses; see ``test_private_parts``."""

import importlib
import inspect
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.inference import mlx_lm_internals
from tests.conventions.private_parts import expect
from tests.support.models.tiny_models import tiny_model


@pytest.fixture(scope="module")
def loaded(demo_model_path: Path) -> tuple[Any, Any]:
    from mlx_lm.utils import load

    model, wrapper = load(str(demo_model_path))[:2]
    return model, wrapper


@pytest.fixture
def batch(loaded: tuple[Any, Any]) -> Iterator[Any]:
    from mlx_lm.generate import BatchGenerator

    made = BatchGenerator(
        loaded[0], completion_batch_size=4, prefill_batch_size=2, prefill_step_size=8
    )
    yield made
    made.close()


def test_the_wrapper_of_mlx_lm_holds_the_tokenizer_of_transformers(loaded: tuple[Any, Any]) -> None:
    from transformers import PreTrainedTokenizerBase

    expect(
        "mlx-lm",
        "TokenizerWrapper._tokenizer",
        lambda: isinstance(mlx_lm_internals.inner_tokenizer(loaded[1]), PreTrainedTokenizerBase),
    )


def test_the_wrapper_of_mlx_lm_says_whether_code_renders_its_prompts(
    loaded: tuple[Any, Any],
) -> None:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    inner = mlx_lm_internals.inner_tokenizer(loaded[1])
    coded = TokenizerWrapper(inner, chat_template=lambda *_, **__: "rendered by code")
    expect(
        "mlx-lm",
        "TokenizerWrapper._chat_template",
        lambda: (
            not mlx_lm_internals.has_template_in_code(loaded[1])
            and mlx_lm_internals.has_template_in_code(coded)
            and coded.apply_chat_template([], tokenize=False) == "rendered by code"
        ),
    )


def test_a_parser_of_mlx_lm_lies_in_the_module_of_its_format(loaded: tuple[Any, Any]) -> None:
    expect(
        "mlx-lm",
        "the modules of mlx_lm.tool_parsers",
        lambda: mlx_lm_internals.tool_format(loaded[1]) == "json_tools",
    )


def test_mlx_lm_knows_an_architecture_without_loading_a_model() -> None:
    def knows() -> bool:
        mlx_lm_internals.classes_of({"model_type": "qwen3"})
        with pytest.raises(ValueError, match="not supported"):
            mlx_lm_internals.classes_of({"model_type": "none_such"})
        return True

    expect("mlx-lm", "utils._get_classes", knows)


def test_a_batch_of_mlx_lm_counts_its_rows_and_the_tokens_that_it_read(batch: Any) -> None:
    def counts() -> bool:
        batch.insert([list(range(3, 20)), [5, 6]], max_tokens=[8, 8])
        seen = []
        for _ in range(4):
            before = mlx_lm_internals.prompt_tokens_read(batch)
            with batch.stats() as public:
                batch.next()
            read = mlx_lm_internals.prompt_tokens_read(batch) - before
            assert read == public.prompt_tokens
            seen.append((read, mlx_lm_internals.decoding_rows(batch)))
        return seen[0] == (9, 0) and seen[-1] == (0, 2)

    expect("mlx-lm", "BatchGenerator._counters or ._generation_batch", counts)


def test_batches_of_mlx_lm_read_apart_and_decode_together(
    batch: Any, loaded: tuple[Any, Any]
) -> None:
    def decode() -> bool:
        other = type(batch)(loaded[0], max_tokens=8)
        mlx_lm_internals.decode_together([batch, other])
        one, two = 7, 3
        mlx_lm_internals.insert_sequence(batch, one, [[5, 6, 7]])
        mlx_lm_internals.insert_sequence(other, two, [[8, 9]])
        for generator in (batch, batch, other, other):
            generator.next()
        assert mlx_lm_internals.decoding_rows(other) == 2
        both = [part.uid for part in batch.next()[1]]
        batch.remove([two])
        left = [part.uid for part in other.next()[1]]
        return (both, left) == ([one, two], [one])

    expect("mlx-lm", "BatchGenerator._generation_batch or ._uid_count", decode)


def test_a_batch_of_mlx_lm_reads_rows_in_the_order_of_the_numbers_that_they_were_given(
    batch: Any,
) -> None:
    def obeys() -> bool:
        for row in (4, 9, 6, 2):
            mlx_lm_internals.insert_sequence(batch, row, [[5, 6, 7]], max_tokens=[8])
        # It reads two prompts at a time.
        first = [part.uid for part in batch.next()[0]]
        batch.next()
        second = [part.uid for part in batch.next()[0] if not part.end_of_prompt]
        return (first, second) == ([2, 4], [6, 9])

    expect("mlx-lm", "BatchGenerator._unprocessed_sequences or ._uid_count", obeys)


def test_a_batch_of_mlx_lm_stops_reading_once_where_it_was_told(batch: Any) -> None:
    def obeys() -> bool:
        read: dict[int, list[int]] = {1: [], 2: [], 3: []}

        def step() -> None:
            for part in batch.next()[0]:
                read[part.uid].append(part.progress[0])

        for row in (1, 2, 3):
            mlx_lm_internals.insert_sequence(batch, row, [[5] * 30], max_tokens=[8])
        step()  # The first two, eight tokens of each.
        mlx_lm_internals.stop_reading_at(batch, 1, 11)
        mlx_lm_internals.stop_reading_at(batch, 1, 13)
        mlx_lm_internals.stop_reading_at(batch, 3, 3)
        while read[3][-1:] != [30]:
            step()
        return (read[1], read[2], read[3]) == (
            [8, 11, 13, 21, 29, 30],
            [8, 16, 24, 29, 30],
            [3, 11, 19, 27, 29, 30],
        )

    expect("mlx-lm", "BatchGenerator._currently_processing or ._unprocessed_sequences", obeys)


def test_a_batch_of_mlx_lm_reads_as_much_as_it_was_told_last(batch: Any) -> None:
    def obeys() -> bool:
        batch.insert([list(range(3, 60)) for _ in range(3)], max_tokens=[8] * 3)
        read = []
        for chunk, rows, together in ((3, 4, 1), (5, 4, 1), (5, 0, 1), (2, 4, 3)):
            before = mlx_lm_internals.prompt_tokens_read(batch)
            mlx_lm_internals.set_reading(batch, chunk, rows, together)
            batch.next()
            read.append(mlx_lm_internals.prompt_tokens_read(batch) - before)
        return read == [3, 8 - 3, 0, 3 * 2]

    expect(
        "mlx-lm",
        "BatchGenerator.prefill_step_size, .completion_batch_size or .prefill_batch_size",
        obeys,
    )


def test_the_pending_tokens_of_a_batch_of_mlx_lm_can_be_read_and_set(
    loaded: tuple[Any, Any], batch: Any
) -> None:
    import mlx.core as mx

    def goes_on() -> bool:
        seen: list[list[int]] = []

        def noted(context: Any, logits: Any) -> Any:
            seen.append(context.tolist())
            return logits

        [row] = batch.insert([[5, 6, 7]], max_tokens=[64], logits_processors=[[noted]])
        while not mlx_lm_internals.decoding_rows(batch):
            batch.next()
        rows = mlx_lm_internals.DecodingRows(batch)
        [pending] = rows.pending()
        size = rows.cache[0].size()
        context = rows.context(0, mx.array([pending, 8]))
        rows.shorten_context(0, 1)
        loaded[0](mx.array([[pending]]), cache=rows.cache)
        rows.go_on([[pending]], mx.array([9]), [rows.pending_logprobs(0)])
        _, [after] = batch.next()
        return bool(
            len(rows) == 1
            and rows.numbers == [row]
            and list(rows.processors(0)) == [noted]
            and callable(rows.sampler(0))
            and context.tolist() == [5, 6, 7, pending, 8]
            and after.token == 9
            and rows.cache[0].size() == size + 2
            and seen[-1] == [5, 6, 7, pending, 9]
            and batch.extract_cache([row])[row][1] == [5, 6, 7, pending, 9]
        )

    expect("mlx-lm", "GenerationBatch._next_tokens, _token_context and their fellows", goes_on)


@pytest.mark.parametrize("is_straightened", [False, True])
def test_a_batch_of_mlx_lm_still_masks_a_rotated_window_wrongly(*, is_straightened: bool) -> None:
    """Once the first case draws the right tokens as well, the workaround can go."""

    def draws_the_right_tokens() -> bool:
        from mlx_lm.generate import BatchGenerator
        from mlx_lm.models.cache import make_prompt_cache

        model = tiny_model("windowed")
        batch = BatchGenerator(
            model, completion_batch_size=8, prefill_batch_size=4, prefill_step_size=8
        )
        drawn: dict[int, list[int]] = {1: [], 2: []}

        def step() -> None:
            for part in batch.next()[1]:
                drawn[part.uid].append(part.token)
            if is_straightened:
                mlx_lm_internals.straighten_windows(batch)

        long = [n * 7 % 61 + 1 for n in range(27)]
        short = [9, *long[1:11], 1, 1, 2, 1]
        mlx_lm_internals.insert_sequence(batch, 1, [[*long, 1]], max_tokens=[99])
        for _ in range(4):
            step()
        parts = [short[:10], short[10:11], short[11:]]
        mlx_lm_internals.insert_sequence(batch, 2, parts, max_tokens=[99])
        while len(drawn[2]) < 6:
            step()
        batch.close()
        logits = model(mx.array([[*short, *drawn[2]]]), cache=make_prompt_cache(model))[0]
        found = logits[len(short) - 1 : -1]
        chosen = mx.take_along_axis(found, mx.array(drawn[2])[:, None], axis=1)
        return bool((chosen > found.max(axis=1, keepdims=True) - 1e-3).all().item())

    expect(
        "mlx-lm",
        "BatchRotatingKVCache.make_mask",
        lambda: draws_the_right_tokens() == is_straightened,
    )


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_window_of_mlx_lm_still_holds_what_the_next_token_sees(kept: int) -> None:
    def is_cut_as_if_it_were_never_read() -> bool:
        from mlx_lm.models.cache import RotatingKVCache

        numbers = mx.arange(40, dtype=mx.float32)[None, None, :, None]

        def read(part: Any, begin: int, end: int) -> Any:
            return part.update_and_fetch(numbers[:, :, begin:end], numbers[:, :, begin:end])

        def windows() -> Any:
            part = RotatingKVCache(8)
            read(part, 0, 20)
            batch = RotatingKVCache.merge([part])
            read(batch, 20, 21)
            return batch

        passed, plain = windows(), windows()
        mlx_lm_internals.straighten(passed)
        read(passed, 21, 24)
        mlx_lm_internals.cut_windows([passed], 3 - kept, [0])
        for place in range(21, 21 + kept):
            read(plain, place, place + 1)
        held = [sorted(read(one, 30, 31)[0].reshape(-1).tolist())[-8:] for one in (passed, plain)]
        mlx_lm_internals.straighten(passed)
        read(passed, 31, 34)
        alone = passed.extract(0)
        is_cut = mlx_lm_internals.cut_window(alone, 2)
        return held[0] == held[1] and is_cut and alone.keys.reshape(-1).tolist()[-2:] == [30, 31]

    expect("mlx-lm", "BatchRotatingKVCache._idx, _offset", is_cut_as_if_it_were_never_read)


def test_the_content_of_a_window_is_in_order_and_its_own_tokens_are_known() -> None:
    def is_in_order() -> bool:
        from mlx_lm.models.cache import RotatingKVCache

        def window(begin: int, end: int) -> Any:
            part = RotatingKVCache(8)
            numbers = mx.arange(begin, end, dtype=mx.float32)[None, None, :, None]
            part.update_and_fetch(numbers, numbers)
            return part

        batch = RotatingKVCache.merge([window(0, 20), window(100, 105)])
        contents = []
        for tokens in (1, 1, 4, 1):
            more = mx.arange(50, 50 + tokens, dtype=mx.float32)[None, None, :, None]
            more = mx.concatenate([more, more])
            batch.update_and_fetch(more, more)
            keys, _, padding = mlx_lm_internals.window_content(batch)
            contents.append(
                [
                    row[max(0, left) :]
                    for row, left in zip(keys[:, 0, :, 0].tolist(), padding.tolist(), strict=True)
                ]
            )
        newest = [50.0, 50.0, 50.0, 51.0, 52.0, 53.0, 50.0]
        long, short = [*map(float, range(12, 20))], [*map(float, range(100, 105))]
        return contents == [
            [[*row, *newest[:read]][-8:] for row in (long, short)] for read in (1, 2, 6, 7)
        ]

    expect("mlx-lm", "BatchRotatingKVCache.left_padding, _idx", is_in_order)


def test_importing_mlx_lm_still_changes_the_limit_of_open_files() -> None:
    def changes() -> bool:
        source = inspect.getsource(importlib.import_module("mlx_lm.utils"))
        return "resource.setrlimit(resource.RLIMIT_NOFILE" in source

    # Once it does not, the workaround can go.
    expect("mlx-lm", "the call of setrlimit in mlx_lm/utils.py", changes)


def test_the_limit_of_open_files_can_be_changed_again_after_the_import() -> None:
    changed = resource.setrlimit
    with mlx_lm_internals.limit_of_open_files_kept():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))
    assert resource.setrlimit is changed
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1


def test_a_batch_of_mlx_lm_reads_its_prompts_with_the_class_that_it_was_given(batch: Any) -> None:
    from mlx_lm.generate import PromptProcessingBatch

    read: list[tuple[list[int], list[int]]] = []

    class Noting(PromptProcessingBatch):  # type: ignore[misc]
        name = "copies"

        def prompt(self, tokens: Any) -> None:
            if tokens:
                before = [len(one) for one in self.tokens]
                read.append((before, [len(one) for one in tokens]))
                assert (self.name, len(self.uids)) == ("own", len(tokens))
                assert callable(self.model)
            super().prompt(tokens)

    def reads() -> bool:
        mlx_lm_internals.read_as(batch, Noting, name="own")
        batch.insert([[5] * 12, [6] * 3], max_tokens=[8] * 2)
        while not mlx_lm_internals.decoding_rows(batch):
            batch.next()
        # Eight tokens at once; the last of each prompt is read with the first step of its answer.
        return read[0] == ([0, 0], [8, 2]) and read[1] == ([8], [3])

    expect("mlx-lm", "BatchGenerator._prompt_batch", reads)


def test_the_recurrences_of_mlx_lm_are_looked_up_in_their_modules() -> None:
    def is_watched() -> bool:
        from mlx_lm.models import gated_delta, ssm

        before = gated_delta.gated_delta_ops, gated_delta.gated_delta_kernel, ssm.ssm_attn
        called: list[Any] = []

        def watch(run: Any, *args: Any, **options: Any) -> Any:
            called.append(run)
            return run(*args, **options)

        steps: list[mx.array] = []
        ones, heads = mx.ones((1, 3, 2, 4)), mx.ones((2,))
        with mlx_lm_internals.recurrences_watched(watch, watch, steps.append):
            gates = mx.ones((1, 3, 2))
            state = gated_delta.gated_delta_update(ones, ones, ones, gates, gates, heads, heads)[1]
            ssm.ssm_update(ones, heads, ones, ones, heads, gates, heads)
        after = gated_delta.gated_delta_ops, gated_delta.gated_delta_kernel, ssm.ssm_attn
        return (
            after == before
            and called == [before[0], before[2]]
            and len(steps) == 3
            and steps[-1] is state
        )

    expect("mlx-lm", "gated_delta._gated_delta_step_ops and ssm.ssm_attn", is_watched)
