"""A chat template cannot run without end, and real ones render as before."""

import time
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from engine.conversation import bounded_jinja
from engine.conversation.bounded_jinja import BoundedEnvironment, TemplateTooCostly

_LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
_MACRO = (
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
)


@pytest.mark.parametrize("template", [_LOOPS, _MACRO])
def test_template_without_end_is_refused_after_its_time(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_jinja, "MAX_RENDER_S", 0.2)
    began_s = time.thread_time()
    with pytest.raises(TemplateTooCostly):
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
    for change in ("messages[0].update(x=1)", "messages.clear()", "messages[0].pop(1)"):
        with pytest.raises(SecurityError):
            environment.from_string("{{ " + change + " }}").render(messages=[{}])
