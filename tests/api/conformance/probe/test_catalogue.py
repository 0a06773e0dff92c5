"""The catalogue names every check once, and says for every dialect how binding it is."""

import re
from fnmatch import fnmatchcase
from functools import partial

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe import checks
from api.conformance.probe.catalogue import CASES, Case, Level
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.run import CHECKS


def test_every_check_is_in_the_catalogue_and_nothing_else_is() -> None:
    codes = [case.check_id for case in CASES]
    assert len(codes) == len(set(codes))
    assert {*codes} == {"server.answers", "baseline", *CHECKS}


def test_every_check_is_in_the_module_of_its_id() -> None:
    rows = re.findall(r"^(\w+): ((?:.|\n    )+)", checks.__doc__ or "", re.MULTILINE)
    patterns = [(module, pattern) for module, listed in rows for pattern in listed.split()]
    for check_id, check in CHECKS.items():
        function = check.func if isinstance(check, partial) else check
        module = next(module for module, pattern in patterns if fnmatchcase(check_id, pattern))
        assert function.__module__.rpartition(".")[2] == module, check_id


def test_what_may_harm_a_server_comes_last() -> None:
    harms = [case.may_harm for case in CASES]
    assert harms == sorted(harms)
    assert harms.count(True) == 8


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check_id)
def test_every_case_has_a_rule_and_a_specification_has_a_reference(case: Case) -> None:
    assert case.rule.endswith(".")
    for dialect in DRIVERS:
        found = case.reference_in(dialect)
        assert case.level_in(dialect) is not Level.SPECIFICATION or found is not None
        if found is not None:
            assert found.address.startswith("https://")
            assert found.sentence.endswith(".")


def test_a_rule_that_a_vendor_does_not_state_is_an_extension() -> None:
    levels = {case.check_id: case.level_in(WireDialect.RESPONSES) for case in CASES}
    assert levels["stop.one_character"] is Level.EXTENSION
    assert levels["limit"] is Level.SPECIFICATION
    ids = next(case for case in CASES if case.topic == "stop token ids")
    assert ids.level_in(WireDialect.CHAT) is Level.EXTENSION
    assert ids.level_in(WireDialect.GENERATE) is Level.SPECIFICATION
