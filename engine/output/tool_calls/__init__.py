"""Tool calls: one reader per format reads a call while it is written and when it is complete.

A streamed call and a whole one cannot differ, because the same reader reads both. Certain parts are
sent at once; text that turns out not to be a call is the answer's text.

``call_text`` holds the arriving text and the parts found in it, ``json_text`` reads and repairs
JSON, ``parameters`` follows the schemas of formats without types. ``calls`` follows the calls of
one answer; the other modules have the formats.
"""
