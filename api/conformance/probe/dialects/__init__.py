"""How each dialect is asked: paths, bodies, errors, words for reasons, references.

Knows what servers in the field take, not what ours takes.
"""
