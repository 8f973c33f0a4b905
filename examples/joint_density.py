"""A joint density of wines along a graph: draws beside data, and what arrows gain.

Run with `python examples/joint_density.py [folder [rows]]`. The data come with
scikit-learn; nothing is downloaded. Two pictures are written to the folder, `graph.png`
and `pairs.png`.
"""

import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

from kexpfam import FactorizedDensity
from kexpfam.comparison import classifier_score, mmd_test
from kexpfam.display import PairsDisplay

COLUMNS = ["alcohol", "color_intensity", "hue", "flavanoids", "proline"]

# What a wine maker might say: strong wines are coloured and have proline; colour goes
# with hue, and both with flavanoids.
GRAPH = {
    "alcohol": [],
    "color_intensity": ["alcohol"],
    "hue": ["color_intensity"],
    "flavanoids": ["color_intensity", "hue"],
    "proline": ["alcohol", "flavanoids"],
}


def main(folder: str = ".", rows: str = "178") -> None:
    wine = load_wine(as_frame=True).data[COLUMNS]
    wine = wine.sample(int(rows), random_state=0)
    model = FactorizedDensity(graph=GRAPH, random_state=0, n_jobs=-1).fit(wine)
    gains = model.held_out_gains(wine)
    print(gains)
    print(f"\nAll arrows together gain {gains.total:.2f} nats per wine.\n")

    strong = model.sample(1000, random_state=0, given={"alcohol": 14.0})
    print("A wine of 14 % alcohol:", described(strong))
    pale = model.conditional({"color_intensity": 2.5, "hue": 1.2}, random_state=0)
    print("A pale wine, by evidence on descendants:")
    print(f"  alcohol {pale.mean()[0]:.2f} ± {pale.std()[0]:.2f}; {pale!r}\n")

    draws = model.sample(len(wine), random_state=1)
    test = mmd_test(wine, draws, random_state=0)
    told = classifier_score(wine, draws, random_state=0)
    print(f"Do draws differ from data? {test}")
    print(f"Can a classifier tell them apart? {told}")

    matplotlib.use("Agg")
    place = Path(folder)
    model.plot(gains)
    plt.gcf().savefig(place / "graph.png", dpi=120)
    PairsDisplay.from_samples(wine, draws)
    plt.gcf().savefig(place / "pairs.png", dpi=100)
    print(f"\nThe pictures are {place / 'graph.png'} and {place / 'pairs.png'}")


def described(draws: object) -> str:
    """Means of columns in words."""
    means = pd.DataFrame(draws, columns=COLUMNS).mean()
    return ", ".join(f"{name} {value:.4g}" for name, value in means.items())


if __name__ == "__main__":
    main(*sys.argv[1:3])
