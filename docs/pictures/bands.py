"""Densities at two x with error bars of their own, beside the truth.

python docs/pictures/bands.py [folder [rows]]
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from style import IMAGES, INK, SLICES, pyplot, write

from kexpfam import AutoKCEF
from kexpfam.datasets import make_bimodal

AT = (-0.5, 0.5)


def main(folder: str = str(IMAGES), rows: str = "200") -> None:
    plt = pyplot()
    data = make_bimodal(int(rows), random_state=0)
    # A picture of few rows is a test of this script.
    replicates = 10 if len(data.y) > 100 else 2
    model = AutoKCEF(bootstrap=replicates, random_state=0).fit(*data)
    p: Any = model.given([[x] for x in AT])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    y = np.linspace(-3.0, 3.0, 301)
    for ax, x, one, colour in zip(axes, AT, p, SLICES, strict=False):
        one.plot(ax, band=0.9, color=colour, label="p(y | x), and its 90 % band")
        truth = np.exp(data.logpdf([[x]], y[None])[0])
        ax.plot(y, truth, color=INK, lw=1, ls=(0, (4, 3)), label="truth")
        ax.set(title=f"x = {x:g}", xlim=(-3, 3))
        ax.legend(loc="upper right", fontsize=8)
    print(f"The picture is {write(figure, 'bands.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
