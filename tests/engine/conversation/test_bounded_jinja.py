"""A chat template can neither run nor grow without end, and real ones render as before."""

import time
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateRuntimeError
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from engine.conversation import bounded_jinja
from engine.conversation.bounded_jinja import BoundedEnvironment
from engine.errors import InvalidRequest
from engine.values.request import GenerationRequest
from tests.support.asking import ask, loaded_engine
from tests.support.scripted import END, GO, START, TEMPLATE, Stage

DOUBLED = (
    "{% set ns = namespace(x='abcdefgh') %}"
    "{% for i in range(60) %}{% set ns.x = BODY %}{% endfor %}"
)
_LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
_MACRO = (
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 9 ** (9 ** 9) }}",
        DOUBLED.replace("BODY", "ns.x + ns.x"),
        DOUBLED.replace("BODY", "ns.x ~ ns.x"),
        DOUBLED.replace("BODY", "[ns.x, ns.x] | join"),
        DOUBLED.replace("BODY", "ns.x.replace('a', ns.x)"),
        "{% set x = 'abcdefgh' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
        DOUBLED.replace("BODY", "ns.x.replace('', 'x')"),
        "{{ ('1' * 10**6) | replace(1, 'y' * 10**6) }}",
        "{{ range(100000) | map('string') | join('y' * 300000) }}",
        "{{ ('y' * 10**6).join('z' * 10**6) }}",
        "{{ ([{'x': 'y' * 10**6}] * 10**6) | join(attribute='x') }}",
        "{{ 'a' | center(10**9) }}",
        "{{ 'a\n' | indent(10**9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (10**9, 1) }}",
        "{{ '%*d' | format(10**9, 1) }}",
        "{{ '{:{w}}'.format(1, w='999999999') }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ [1] | slice(10**9) | list }}",
        _LOOPS,
        _MACRO,
    ],
)
def test_template_that_grows_or_runs_without_end_is_refused(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_jinja, "MAX_RENDER_S", 0.2)
    began_s = time.thread_time()
    with pytest.raises((TemplateRuntimeError, OverflowError)):
        BoundedEnvironment().from_string(template).render()
    assert time.thread_time() - began_s < 1


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in items %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ m }}{% endfor %}",
        "{% for k, v in pairs.items() %}{{ k ~ '=' ~ v ~ 1 }}{% else %}none{% endfor %}",
        "{% for c in 'abc' if c != 'b' %}{{ loop.previtem }}{{ c }}{{ loop.nextitem }}{% endfor %}",
        "{% for m in missing %}x{% else %}none{% endfor %}{{ '-' * 20 }}{{ 3 * 10**6 * 60 }}",
        "{% for i in tree recursive %}{{ i.n }}{{ loop(i.inner) }}{% endfor %}",
        "{{ items | map('upper') | join(', ') }}{{ 'a%sb' % 'c' }}{{ 'x'.replace('x', 'yy') }}",
        "{{ 1795849072 + 86400 }}{{ [1] + [2] }}{{ 'a' + 'b' }}{{ 'abc' | center(9) | indent(4) }}",
        "{{ items | map('upper') | join }}{{ ', '.join(items) }}{{ tree | join(attribute='n') }}",
        "{{ '{{{}}}'.format(1) }}{{ '{a: {b: %s}}' % 1 }}{{ 'aba' | replace('a', 1) }}",
        "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m('x') ~ m('y') }}",
        "{% set s %}{{ items }}{% endset %}{{ s }}{% filter upper %}{{ items }}{% endfilter %}",
    ],
)
def test_usual_template_renders_as_in_the_sandbox_of_jinja(template: str) -> None:
    values: dict[str, Any] = {
        "items": ["a", "b", "c"],
        "pairs": {"a": 1, "b": [2]},
        "tree": [{"n": 1, "inner": [{"n": 2, "inner": []}]}],
    }
    expected = ImmutableSandboxedEnvironment().from_string(template).render(**values)
    assert BoundedEnvironment().from_string(template).render(**values) == expected


def test_list_of_a_template_takes_items_and_other_objects_stay_as_they_are() -> None:
    environment = BoundedEnvironment()
    collecting = (
        "{% set ids = [] %}{% set _ = ids.append(messages[0].role) %}{{ ids }}{{ ids.pop() }}"
    )
    assert environment.from_string(collecting).render(messages=[{"role": "a"}]) == "['a']a"
    changes = ("messages[0].update(x=1)", "messages.clear()", "messages[0].pop(1)")
    for change in (*changes, "'aaa'.translate({97: 'a' * 10**6})"):
        with pytest.raises(SecurityError):
            environment.from_string("{{ " + change + " }}").render(messages=[{}])


@pytest.mark.parametrize(
    "bomb", ["{{ 'a' * 10**9 }}", "{% set x = messages[0].content * 10**9 %}", "{{ 'a' ** 2 }}"]
)
async def test_request_of_a_model_whose_template_grows_without_end_is_refused(
    tmp_path: Path, bomb: str
) -> None:
    stage = Stage(tmp_path, {"go": ["a"]}, template=bomb + TEMPLATE)
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        with pytest.raises(InvalidRequest, match="the chat template of scripted failed"):
            await ask(engine, "go")
        raw = GenerationRequest((), prompt=f"{START}user:go{END}{GO}")
        assert (await (await engine.generate(raw)).collect()).text == "a"
