"""Tool calls: one reader per format reads a call while it is written and when it is complete.

A streamed call and a whole one cannot differ, because the same reader reads both. Certain parts are
sent at once; text that turns out not to be a call is the answer's text.

``formats`` is the table of formats, which the grammars of forced calls read as well. A reader is a
generator function. It takes characters from a ``StreamBuffer`` and passes certain parts to a
``CallWriter``; where it needs more text than has arrived, it yields, as do the parts that it calls
(``yield from``), and ``CallReader`` continues it with the next text. So the text is read once,
however it is cut. Text of another form raises ``IrregularCall``.

``call_text`` has these, ``json_text`` reads and repairs JSON, ``parameters`` finds the types of
values in formats without types, by ``schema_alternatives``; ``json_calls``, ``tagged_calls`` and
``pythonic_calls`` have the readers. ``calls`` chooses one and follows the calls of one answer.
"""
