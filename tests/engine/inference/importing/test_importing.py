"""mlx-lm is imported without the parts that a model never uses, which still load when needed.

Each test runs in a process of its own, because a library is imported once.
"""

import json
import subprocess
import sys
from typing import Any

IMPORTED = """
import json, sys
from engine.inference.loader import importing_mlx_lm
with importing_mlx_lm():
    import engine.inference.mlx_loading
"""


def result_of(program: str) -> Any:
    """Return the value that a program prints last as JSON, run by a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


NAMES = """
import json, transformers, transformers.models
print(json.dumps([
    sorted(transformers.__all__),
    sorted(transformers.models.__all__),
    sorted(transformers._class_to_module.items()),
    sorted(transformers._modules),
    sorted((name, sorted(why)) for name, why in transformers._object_missing_backend.items()),
    sorted(set(dir(transformers)) - {"_made_of"}),
    transformers.__version__,
]))
"""


def test_transformers_knows_the_same_names_as_if_it_had_read_them_at_its_import() -> None:
    assert result_of(IMPORTED + NAMES) == result_of("import mlx_lm" + NAMES)


def test_the_names_of_models_are_read_when_one_of_them_is_needed() -> None:
    program = """
import transformers
before = len(transformers._class_to_module)
found = transformers.LlamaTokenizer.__name__
print(json.dumps([before, len(transformers._class_to_module), found]))
"""
    before, after, found = result_of(IMPORTED + program)
    assert before * 10 < after
    assert found == "LlamaTokenizer"


def test_a_name_that_transformers_does_not_have_is_refused_as_usual() -> None:
    program = """
import transformers
print(json.dumps([hasattr(transformers, "NoSuchThing"), hasattr(transformers.models, "none_such")]))
"""
    assert result_of(IMPORTED + program) == [False, False]


def test_names_of_two_models_can_be_asked_for_on_several_threads_at_once() -> None:
    program = """
import threading, transformers
wanted = ["LlamaTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "GPT2Tokenizer"] * 2
found = []
begin = threading.Barrier(len(wanted))
def ask(name):
    begin.wait()
    found.append(getattr(transformers, name).__name__)
threads = [threading.Thread(target=ask, args=(name,)) for name in wanted]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(sorted(found) == sorted(wanted)))
"""
    assert result_of(IMPORTED + program) is True


def test_the_client_of_the_hub_is_imported_when_it_is_first_used() -> None:
    program = """
import huggingface_hub
from transformers.utils import hub
client = "huggingface_hub.hf_api"
seen = [client in sys.modules]
made = hub.hf_api()
from huggingface_hub import HfApi, ModelCard, snapshot_download
print(json.dumps(seen + [
    client in sys.modules,
    type(made) is HfApi,
    isinstance(made, hub.HfApi),
    issubclass(ModelCard, hub.ModelCard),
    HfApi.__module__,
    snapshot_download.__module__,
]))
"""
    assert result_of(IMPORTED + program) == [
        False,
        True,
        True,
        True,
        True,
        "huggingface_hub.hf_api",
        "huggingface_hub._snapshot_download",
    ]


def test_what_was_imported_before_stays_as_it_is() -> None:
    program = """
import json, sys
import transformers, huggingface_hub
from huggingface_hub import HfApi
from engine.inference.loader import importing_mlx_lm
before = [transformers, huggingface_hub.HfApi]
with importing_mlx_lm():
    import engine.inference.mlx_loading
after = [sys.modules["transformers"], huggingface_hub.HfApi]
print(json.dumps([one is other for one, other in zip(before, after)]))
"""
    assert result_of(program) == [True, True]


def test_the_collector_runs_again_after_the_import_and_stays_off_where_it_was_off() -> None:
    program = """
import gc, json
from engine.inference.loader import importing_mlx_lm
seen = []
def runs():
    return gc.isenabled() and gc.get_threshold()[0] > 0
with importing_mlx_lm():
    seen.append(runs())
seen.append(runs())
gc.disable()
with importing_mlx_lm():
    pass
print(json.dumps(seen + [runs()]))
"""
    assert result_of(program) == [False, True, False]
