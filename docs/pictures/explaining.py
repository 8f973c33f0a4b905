"""Importance, an effect, a density along a column, and why a quantile is high.

python docs/pictures/explaining.py [folder [rows]]
"""

import sys
from pathlib import Path

from sklearn.datasets import load_diabetes
from style import IMAGES, pyplot, write

from kexpfam import AutoKCEF


def main(folder: str = str(IMAGES), rows: str = "300") -> None:
    plt = pyplot()
    X, y = load_diabetes(as_frame=True, scaled=False, return_X_y=True)
    n = int(rows)
    model = AutoKCEF(random_state=0).fit(X[:n], y[:n])
    new_X, new_y = X[n : n + 142], y[n : n + 142]
    # A picture of few rows is a test of this script.
    how = {"random_state": 0} if n > 100 else {"random_state": 0, "max_rows": 20}
    figure = plt.figure(figsize=(11, 7.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    model.importance(new_X, new_y, **how).plot(top.subplots(1, 3, sharey=True))
    left, middle, right = bottom.subplots(1, 3, width_ratios=[1, 1.2, 1.1])
    model.effect("bmi", new_X, of="quantiles", bins=8, **how).plot(left)
    model.effect("bmi", new_X, of="density", bins=8, **how).plot(middle)
    high = int(model.predict_quantiles(new_X, 0.9)[:, 0].argmax())
    found = model.explain(
        new_X.iloc[[high]], of=0.9, groups="auto", max_background=20, random_state=0
    )
    found.plot(right, most=6)
    right.set_title(f"Why one patient's q0.9 is {found.prediction:.0f}")
    top.suptitle("What is lost without a column", x=0.01, ha="left", fontsize=11)
    left.set_title("What bmi does")
    middle.set_title("p(y | bmi)")
    print(f"The picture is {write(figure, 'explaining.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
