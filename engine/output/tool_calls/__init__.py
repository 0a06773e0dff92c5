"""Tool calls: one reader per format reads a call while it is written and when it is complete.

A streamed call and a whole one cannot differ, because the same reader reads both. Certain parts are
sent at once; text that turns out not to be a call is the answer's text.

A format is a generator function. It takes characters from a ``StreamBuffer`` and writes what is
certain to a ``CallWriter``; where it needs more text than has arrived, it yields, as do the parts
that it calls (``yield from``), and ``CallReader`` continues it with the next text. So the text is
read once, however it is cut. Text of another form raises ``IrregularCall``.

``call_text`` has these, ``json_text`` reads and repairs JSON, ``parameters`` finds the types of
values in formats without types, by ``schema_alternatives``. ``calls`` follows the calls of one
answer; the other modules have the formats.
"""
