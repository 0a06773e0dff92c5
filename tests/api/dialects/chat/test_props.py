"""The properties of a model, as llama.cpp's clients read them."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from engine.engine import Engine
from tests.api.conftest import Site
from tests.support.several.offered_models import offered


def test_props_are_those_of_the_loaded_model(site: Site) -> None:
    found = site.send("GET", "/props").json
    assert found["default_generation_settings"] == {"n_ctx": 32_768}
    assert found["total_slots"] == site.engine.limits.max_rows
    assert (found["model_alias"], found["model_path"]) == ("demo-model", "demo-model")
    assert "<|im_start|>" in found["chat_template"]
    assert found["modalities"] == {"vision": False, "audio": False}
    assert found["build_info"].startswith("fullstop-")
    assert found["is_sleeping"] is False


def test_props_are_a_routers_until_a_model_is_named(
    serve: Callable[..., Site], demo_model_path: Path
) -> None:
    with closing(Engine()) as engine:
        engine.offer([offered(demo_model_path)])
        site = serve(engine)
        router = site.send("GET", "/props").json
        assert (router["role"], router["model_path"]) == ("router", "none")
        assert router["default_generation_settings"] == {"params": {}, "n_ctx": 0}
        named = site.send("GET", "/props?model=demo-model&autoload=false").json
        assert named["default_generation_settings"] == {"n_ctx": 32_768}
        assert named["is_sleeping"] is True
        assert site.send("GET", "/props?model=other").status == 404
        assert not engine.status.is_loaded


def test_props_without_a_model_are_refused(serve: Callable[..., Site]) -> None:
    with closing(Engine()) as engine:
        reply = serve(engine).send("GET", "/props")
        assert (reply.status, reply.json["error"]["code"]) == (503, "no_model_loaded")
