"""Other methods for p(y|x) on the paper's fourteen R data sets.

The environment variable KEXPFAM_DATA has to name the folder that holds the sets as CSV,
y in the last column. Besides kexpfam's own dependencies, two methods need the packages
ngboost and quantile-forest; kexpfam itself is not imported. The methods, and how each
chooses its parameters, are in `rival_methods.py`.

The protocol, and the layout of `results/rivals.json`, are in `protocol.py`.
"""

import argparse
from pathlib import Path

from protocol import SEEDS, SETS, run, seed_range, table
from record import RESULTS, write_result
from rival_methods import METHODS

LIBRARIES = ("numpy", "scipy", "scikit-learn", "ngboost", "quantile-forest")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rival methods on the R data sets.")
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="100:120")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=RESULTS / "rivals.json")
    options = parser.parse_args()
    chosen = {name: METHODS[name] for name in options.methods}
    result = run(
        options.datasets,
        options.seeds,
        chosen,
        options.out,
        lambda found: write_result(
            "rivals", found, libraries=LIBRARIES, path=options.out
        ),
    )
    print(table(result))


if __name__ == "__main__":
    main()
