"""Models beside each other: differences of their scores, with 95 % intervals.

python docs/pictures/differences.py [folder [rows]]
"""

import sys
from pathlib import Path

import numpy as np
from style import IMAGES, pyplot, write

from kexpfam import KCEF, metrics
from kexpfam.baselines import LSCDE, ConditionalKDE


def comparison(n: int) -> metrics.Comparison:
    """The models of docs/metrics.md, on its rows if n is 600."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(n, 1))
    y = np.sin(3 * x[:, 0]) + (0.1 + 0.2 * x[:, 0] ** 2) * rng.normal(size=n)
    half = n // 2
    models = {
        "KCEF": KCEF(select=None).fit(x[:half], y[:half]),
        "kernel density": ConditionalKDE().fit(x[:half], y[:half]),
        "LSCDE": LSCDE(random_state=0).fit(x[:half], y[:half]),
    }
    return metrics.compare(models, x[half:], y[half:])


def main(folder: str = str(IMAGES), rows: str = "600") -> None:
    pyplot()
    figure = comparison(int(rows)).plot()[0].figure
    print(f"The picture is {write(figure, 'differences.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
