"""What is collected: doctests of a module only where it can be imported."""

from importlib.util import find_spec

# Classes that inherit from those of another library, which need not be there.
NEEDS = {"src/kexpfam/bridges/skpro.py": "skpro", "docs/sections.py": "griffe"}

collect_ignore = [path for path, module in NEEDS.items() if not find_spec(module)]
