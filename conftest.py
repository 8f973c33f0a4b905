"""What is collected: doctests of a module only where it can be imported.

And Ctrl-C works: shells let programs in the background ignore it, which tests of it,
and the programs that they start, would inherit.
"""

import signal
from importlib.util import find_spec

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Classes that inherit from those of another library, which need not be there.
NEEDS = {"src/kexpfam/bridges/skpro.py": "skpro", "docs/sections.py": "griffe"}

collect_ignore = [path for path, module in NEEDS.items() if not find_spec(module)]
