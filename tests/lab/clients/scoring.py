"""Scores prompts through other people's programs, and compares every figure with plain MLX.

``python -m tests.lab.clients.scoring`` makes an environment for each program in a temporary folder
and runs ``fullstop serve`` on the demo model: lm-evaluation-harness' loglikelihood tasks must give
what mlx-lm's own evaluation gives, and SGLang's ``select`` must choose by the model's own figures.
By hand only: it takes some minutes and 1.5 GB, and fetches from PyPI.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.lab.clients.environments import bare_environment, python_environment
from tests.lab.clients.judging import Report
from tests.lab.clients.libraries import PROGRAMS
from tests.lab.clients.servers import REPOSITORY, demo_server

MODEL = REPOSITORY / "assets" / "demo-model"
# Without Apple's GPUs, MLX has its backend in an extra.
MLX = "mlx" if sys.platform == "darwin" else "mlx[cpu]"
HARNESS = ("lm_eval[api]==0.4.13", f"mlx-lm=={version('mlx-lm')}", f"{MLX}=={version('mlx')}")
# The dependencies of the language's modules; the package declares only those of its server.
LANGUAGE = ("aiohttp", "msgspec", "requests", "numpy", "pybase64", "ipython", "pydantic", "tqdm")
SGLANG = "sglang==0.5.23"
MOST_APART = 1e-4
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "NO_PROXY": "127.0.0.1,localhost"}


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory() as temporary, demo_server() as server:
        folder = Path(temporary)
        home = bare_environment(folder / "home", **OFFLINE)
        python = python_environment(folder / "lm_eval", *HARNESS)
        for line in _lines(python, "lm_eval_program", home, server.url, str(MODEL)):
            is_equal = line["largest_difference"] <= MOST_APART and line["greedy_agree"]
            report.add(f"lm-evaluation-harness {line['name']}", is_equal, json.dumps(line))
        python = python_environment(folder / "sglang", *LANGUAGE)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", SGLANG]
        subprocess.run(install, check=True)
        for line in _lines(python, "sglang_program", home, server.url):
            figures = line.get("figures", [])
            is_right = all(
                abs(one - other) <= MOST_APART
                for one, other in zip(figures, _expected(line) if figures else [], strict=True)
            )
            report.add(f"SGLang {line['name']}", is_right, json.dumps(line))
    return report.exit_code()


def _lines(python: Path, program: str, home: dict[str, str], *words: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [python, PROGRAMS / f"{program}.py", *words],
        env=home,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    found = [json.loads(one) for one in done.stdout.splitlines() if one.startswith('{"name"')]
    if not found:
        raise SystemExit(f"{program} failed:\n{done.stderr[-2000:]}")
    return found


def _expected(line: dict[str, Any]) -> list[float]:
    """Return the mean log-probability of each choice's tokens, as ``select`` counts them.

    From the last but one token of the context on: where the context ends with that token's text,
    nothing has been healed, and the token is left out.
    """
    import mlx.core as mx
    import mlx_lm

    model, tokenizer = mlx_lm.load(str(MODEL))[:2]
    start = len(tokenizer.encode(line["question"])) - 2
    means = []
    for choice in line["choices"]:
        ids = tokenizer.encode(line["question"] + choice)
        logits = model(mx.array([ids]))[0].astype(mx.float32)
        rows: Any = (logits - mx.logsumexp(logits, axis=-1, keepdims=True)).tolist()
        values = [rows[place - 1][ids[place]] for place in range(start, len(ids))]
        if line["question"].endswith(tokenizer.decode([ids[start]])):
            del values[0]
        means.append(sum(values) / len(values))
    return means


if __name__ == "__main__":
    sys.exit(main())
