"""Slow, plain twins of the library's formulas, written from the equations alone.

Nothing here imports `kexpfam`: what an oracle says must not depend on what it checks.
"""
