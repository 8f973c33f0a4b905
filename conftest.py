"""What is collected: doctests of a module only where it can be imported."""

from importlib.util import find_spec

# Its classes inherit from skpro's.
collect_ignore = [] if find_spec("skpro") else ["src/kexpfam/bridges/skpro.py"]
