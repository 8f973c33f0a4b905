"""The command line, `kexpfam`."""

from kexpfam.cli.program import main

__all__ = ["main"]
