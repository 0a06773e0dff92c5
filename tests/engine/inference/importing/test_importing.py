"""mlx-lm is imported without the parts that a model never uses, which still load when needed.

Each test runs in a process of its own, because a library is imported once.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.long

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


@pytest.mark.slow  # what it compares changes with a version of transformers only
def test_transformers_knows_the_same_names_as_if_it_had_read_them_at_its_import() -> None:
    assert result_of(IMPORTED + NAMES) == result_of("import mlx_lm" + NAMES)


def test_what_a_model_never_uses_is_imported_when_it_is_first_used() -> None:
    program = """
import threading, transformers
seen = {}
before = len(transformers._class_to_module)
wanted = ["LlamaTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "GPT2Tokenizer"] * 2
begin = threading.Barrier(len(wanted))
found = []
def ask(name):
    begin.wait()
    found.append(getattr(transformers, name).__name__)
threads = [threading.Thread(target=ask, args=(name,)) for name in wanted]
for thread in threads: thread.start()
for thread in threads: thread.join()
seen["names on several threads"] = sorted(found) == sorted(wanted)
seen["names are more"] = before * 10 < len(transformers._class_to_module)
seen["unknown"] = [hasattr(transformers, "NoSuchThing"), hasattr(transformers.models, "none_such")]
print(json.dumps(seen))
"""
    assert result_of(IMPORTED + program) == {
        "unknown": [False, False],
        "names on several threads": True,
        "names are more": True,
    }


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
