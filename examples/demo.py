"""Why one number is not enough: flavanoids in a wine, given the colour of the wine.

Run with `make demo`, or `python examples/demo.py [picture.png]`; it is `kexpfam demo`,
which is read in src/kexpfam/cli/demo.py. A picture of an earlier run is replaced.
"""

import sys

from kexpfam.cli import main

if __name__ == "__main__":
    main(["demo", "--force", "-o", *(sys.argv[1:2] or ["demo.png"])])
