import sys

from PySide6.QtCore import QObject, Signal


class _Emitter(QObject):
    said = Signal(bool)
    said_object = Signal(object)


def test_two_thousand_emits_leave_the_references_of_true_and_none_alone(qtbot: object) -> None:
    """Some PySide6 versions drop one at every emit, which ends the process after a while."""
    emitter = _Emitter()
    heard: list[object] = []
    emitter.said.connect(heard.append)
    emitter.said_object.connect(lambda value: None)
    before = sys.getrefcount(True), sys.getrefcount(None)
    for _ in range(2000):
        emitter.said.emit(True)
        emitter.said_object.emit(None)
    assert len(heard) == 2000
    heard.clear()
    after = sys.getrefcount(True), sys.getrefcount(None)
    assert all(abs(now - then) < 100 for now, then in zip(after, before, strict=True))
