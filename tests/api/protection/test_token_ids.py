"""No token id from a request, a text or a model's files reaches an MLX array out of its bounds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from engine.values.request import GenerationRequest, Sampling, TraceLevel
from tests.support.asking import ask, loaded_engine
from tests.support.attacks.id_attacks import FAR, IDS, SIZE

_COMPARED = {"stop_token_ids", "sampling_params.stop_token_ids"}


def test_ids_beyond_the_logits_are_refused_by_name_in_every_field(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.support.attacks.id_attacks", str(tmp_path)]
    # In a process of its own: an id that is not checked ends it.
    played = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert played.returncode == 0, played.stderr[-500:]
    answers = [json.loads(line) for line in played.stdout.splitlines()]
    of_ids = [answer for answer in answers if answer[2] in IDS]
    of_texts = [answer for answer in answers if answer[2] not in IDS]
    for path, field, token_id, status, body in of_ids:
        is_only_compared = field in _COMPARED or path == "/detokenize"
        limit = FAR + 1 if is_only_compared else SIZE
        is_taken = 0 <= token_id < limit and field != "context"
        assert status == (200 if is_taken else 400), (path, field, token_id, body)
        assert is_taken or field.rpartition(".")[2] in body
    # A dialect refuses the options of others by name, and each option is known to some dialect.
    assert {status for *_, status, _ in of_texts} == {200, 400}
    taken = {field for _, field, _, status, _ in of_texts if status == 200}
    assert taken == {field for _, field, *_ in of_texts}
    [tokens] = [json.loads(body)["tokens"] for path, *_, body in of_texts if path == "/tokenize"]
    assert max(tokens) < SIZE


async def test_ids_that_only_a_models_files_name_are_neither_read_nor_produced(
    tmp_path: Path, demo_model_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*.py"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    size = int(config["vocab_size"])
    extra = {**tokenizer["added_tokens"][0], "id": size, "content": "<|image|>"}
    tokenizer["added_tokens"].append(extra)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config |= {"eos_token_id": [config.get("eos_token_id", 0), size, size + 7, -1, 2**40]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink(missing_ok=True)

    async with loaded_engine(folder) as engine:
        assert engine.model is not None
        assert engine.model.vocabulary_size == size
        assert max(token.token_id for token in engine.model.eos) < size
        assert await engine.detokenize((size,)) == "<|image|>"
        sampling = Sampling(temperature=0.0, repetition_penalty=1.2, presence_penalty=0.5)
        answer = await ask(
            engine,
            "Hi <|image|>",
            sampling=sampling,
            max_tokens=4,
            top_logprobs=20,
            trace=TraceLevel.FULL,
        )
        assert answer.finished.usage.output_tokens > 0
        raw = GenerationRequest((), prompt="Hi <|image|>", sampling=sampling, max_tokens=2)
        assert (await (await engine.generate(raw)).collect()).finished.usage.output_tokens > 0
