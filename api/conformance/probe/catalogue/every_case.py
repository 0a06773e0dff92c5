"""All cases of the probe, in the order in which a report lists them. Pure; any thread."""

from api.conformance.probe.cases import Case
from api.conformance.probe.catalogue.answers import ANSWER_CASES
from api.conformance.probe.catalogue.stops import STOP_CASES

CASES: tuple[Case, ...] = (*STOP_CASES, *ANSWER_CASES)

_BY_CODE = {case.code: case for case in CASES}


def case_of(code: str) -> Case:
    """Return the case with an id."""
    return _BY_CODE[code]
