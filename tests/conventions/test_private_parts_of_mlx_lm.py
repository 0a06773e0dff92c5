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
        while not batch._generation_batch.uids:
            batch.next()
        rows = mlx_lm_internals.DecodingRows(batch._generation_batch)
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
