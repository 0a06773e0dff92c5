"""What passes of a model cost on a machine is remembered from one start to the next."""

import json
import os
import shutil
from pathlib import Path

import pytest

from engine.inference import mlx_loading
from engine.inference.backend import BatchLimits
from engine.inference.speculation.cost import CostCurve, Guess, PassCosts
from tests.support.asking import ask, loaded_engine

CERTAIN = [Guess(0.99, 31)]
QUESTION = "Repeat: one two three one two three one two three one two three"


def learnt(file: Path, model: str = "m", **costs: float) -> PassCosts:
    """Return costs that are kept in a file, with some measured ones: ``w8=2.7``."""
    found = PassCosts()
    found.remember_in(file, model)
    curve = found.curve(1)
    for _ in range(3):
        curve.note_one(0.5)
    for name, cost in costs.items():
        curve.note(int(name[1:]), cost * 0.5)
    return found


def started(file: Path, model: str = "m", one_s: float = 0.5) -> CostCurve:
    """Return the curve of one sequence after a start that has measured plain decoding only."""
    found = PassCosts()
    found.remember_in(file, model)
    for _ in range(3):
        found.curve(1).note_one(one_s)
    return found.curve(1)


def test_a_start_knows_what_was_measured_before_it(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "costs.json"
    learnt(file, w2=1.2, w4=1.4, w8=1.9).save()
    curve = started(file, one_s=0.25)  # the machine is twice as fast now: so are all passes
    assert curve.known == pytest.approx({2: 1.2, 4: 1.4, 8: 1.9})
    assert curve.choose(1, [Guess(0.99, 7)]) == 8


def test_a_width_that_did_not_pay_is_not_tried_again_after_a_start(tmp_path: Path) -> None:
    learnt(file := tmp_path / "costs.json", w2=2.0).save()
    single = [Guess(0.99, 1)]
    assert started(file).choose(1, single) == 1
    assert started(file, model="another").choose(1, single) > 1  # an unknown one is tried


def test_costs_that_are_measured_again_replace_what_was_remembered(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    learnt(file, w2=3.0, w8=9.0).save()
    learnt(file, w2=1.1).save()
    assert started(file).known == pytest.approx({2: 1.1, 8: 9.0})


def test_what_a_draft_of_the_own_head_takes_is_remembered(tmp_path: Path) -> None:
    costs = learnt(tmp_path / "costs.json", w2=1.2)
    costs.curve(1).note_drafts(0.4, drafts=2, read=0)
    costs.save()
    assert started(tmp_path / "costs.json", one_s=0.25).draft_cost == pytest.approx(0.4)
    assert started(tmp_path / "costs.json", "another").known_draft is None


def test_passes_that_were_too_slow_are_forgotten_after_a_while(tmp_path: Path) -> None:
    learnt(file := tmp_path / "costs.json", w2=2.0).save()
    curve = started(file)
    for _ in range(600):
        curve.note_one(0.5)
        if curve.choose(1, CERTAIN) > 1:
            return
    pytest.fail("one slow day would be remembered for ever")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 9000,
        '{"model": "m"}',
        '{"model": "m", "costs": {"1": []}}',
        '{"model": "m", "costs": {"1": {}}}',
        '{"model": "m", "costs": {"one": {"2": 1.0}}}',
        '{"model": "m", "costs": {"1": {"5": 1.0}}}',
        '{"model": "m", "costs": {"1": {"2": -1.0}}}',
        '{"model": "m", "costs": {"1": {"2": true}}}',
        '{"model": "m", "costs": {"1": {"2": Infinity}}}',
        '{"model": "m", "costs": {"1": {"2": 1.0}}, "drafts": {"1": NaN}}',
        '{"model": "m", "costs": {"1": {"2": 1.0}}, "drafts": 0.3}',
        '{"model": "of another", "costs": {"1": {"2": 9.0}}}',
        '{"model": "m", "costs": {"1": {"2": 1.0}}}' + " " * 70_000,
        "\udcff",
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "costs.json"
    file.write_bytes(content.encode(errors="surrogateescape"))
    costs = learnt(file, w2=1.2)
    assert costs.curve(1).known == pytest.approx({2: 1.2})
    costs.save()
    assert started(file).known == pytest.approx({2: 1.2})


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    learnt(tmp_path / "file" / "costs.json", w2=1.2).save()


def test_nothing_is_written_where_nothing_was_measured(tmp_path: Path) -> None:
    learnt(file := tmp_path / "costs.json", w2=1.2).save()
    file.unlink()
    again = PassCosts()
    again.remember_in(file, "m")
    again.save()
    assert not file.exists()


@pytest.fixture
def model(tmp_path: Path, demo_model_path: Path) -> Path:
    """A copy of the demo model."""
    return Path(shutil.copytree(demo_model_path, tmp_path / "model"))


def loaded_costs(model: Path, place: Path) -> dict[int, float]:
    """Return the costs that are remembered for one sequence, right after a load."""
    backend = mlx_loading.load(model, limits=BatchLimits(64, 0, 4, costs=place))
    try:
        return backend.batch.costs.curve(1).known
    finally:
        backend.close()


async def test_an_engine_remembers_what_it_learnt_until_the_model_or_its_libraries_change(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "cache" / "costs"

    assert loaded_costs(model, place) == {}
    async with loaded_engine(model, costs=place) as engine:
        await ask(engine, QUESTION, max_tokens=60)
    [file] = place.iterdir()
    known = loaded_costs(model, place)
    assert known
    with monkeypatch.context() as other:
        other.setattr("engine.inference.cache.fingerprint.version", lambda _: "99.0")
        assert loaded_costs(model, place) == {}
    config = model / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "changed": 1}))
    os.utime(config, (1, 1))
    assert loaded_costs(model, place) == {}
    assert [*place.iterdir()] == [file], "each folder of a model has one file"
