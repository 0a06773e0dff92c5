"""How to send requests in each dialect: paths, bodies, errors, names of reasons, references.

Describes what other servers accept, not only ours.
"""
