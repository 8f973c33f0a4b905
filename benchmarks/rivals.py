"""Other methods for p(y|x) on the paper's fourteen R data sets.

The environment variable KEXPFAM_DATA has to name the folder that holds the sets as CSV,
y in the last column. Some methods need packages of their own (`README.md` says how they
are installed). The methods, and how each chooses its parameters, are in
`rival_methods.py` and `table_rivals.py`; the protocol, and `results/rivals.jsonl`, are
described in `table1.py`.
"""

from rival_methods import METHODS as SMALL
from table1 import SEEDS, found, main
from table_rivals import METHODS as LARGE

from reproduction.tables import cell, table

METHODS = {**LARGE, **SMALL}


def report() -> str:
    """Mean negative log densities; (k) marks a mean of k splits."""
    rows = [
        [name, *(cell(methods.get(m), expected=len(SEEDS)) for m in METHODS)]
        for name, methods in found("rivals").items()
    ]
    return table(["set", *METHODS], rows)


if __name__ == "__main__":
    main("rivals", METHODS, report)
