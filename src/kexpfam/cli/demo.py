"""`kexpfam demo`: why one number is not enough.

Flavanoids in a wine, given the colour of the wine. The data come with scikit-learn;
nothing is downloaded.
"""

from time import perf_counter
from typing import Any

import click
import numpy as np
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from kexpfam import KCEF
from kexpfam._typing import Array
from kexpfam.base_densities import TruncatedBase
from kexpfam.cli.output import PICTURES, check_output, write_picture
from kexpfam.cli.shared import command, force_option, note, output_option
from kexpfam.errors import MissingDependencyError
from kexpfam.kernels import Gaussian

COLOURS = np.array([[3.0], [8.0], [10.0]])  # where to look closely
PENS = ["#1b7837", "#762a83", "#08519c"]
BETWEEN = 1.5  # an amount between the two groups of wines that the picture shows


@command("demo", "kexpfam demo", "kexpfam demo -o wines.svg")
@output_option("demo.png", "The picture, a .png, .svg or .pdf file.")
@force_option
def demo_command(output: str, force: bool) -> None:
    """Fit p(y|x) to 178 wines, print a table and draw a picture."""
    check_output(output, force, PICTURES)
    wine = load_wine()
    column = wine.feature_names.index
    X = wine.data[:, [column("color_intensity")]]
    y = wine.data[:, column("flavanoids")]
    click.echo(f"{len(y)} wines, of three grape varieties from one region of Italy.")
    click.echo("How much flavanoid has a wine, given the intensity of its colour?\n")
    model = choose_model(X, y)
    start = perf_counter()
    model.fit(X, y)
    click.echo(f"Fit to all {len(y)} wines in {perf_counter() - start:.3f} seconds.\n")
    p: Any = model.given(COLOURS)
    print_table(p, X, y)
    try:
        write_picture(output, lambda: draw(model, p, X, y))
        click.echo(f"\nThe picture is in {output}")
    except MissingDependencyError as error:
        note(str(error))
    click.echo("Your own table is next: kexpfam fit data.csv --target NAME")


def choose_model(X: Array, y: Array) -> KCEF:
    """The model that cross-validation prefers, after a test on held-out wines."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=1 / 3, random_state=0
    )
    # An amount is not negative: the base density says so. The lengthscale, in standard
    # deviations of x, says how alike the densities at two colours are.
    search = GridSearchCV(
        KCEF(select=None, base=TruncatedBase(lower=0.0)),
        {"kernel_x": [Gaussian(0.5), Gaussian(1.0), Gaussian(2.0)]},
        cv=KFold(5, shuffle=True, random_state=0),
    ).fit(X_train, y_train)
    line = LinearRegression().fit(X_train, y_train)
    sigma = np.std(y_train - line.predict(X_train))
    score = search.score(X_test, y_test)
    baseline = norm.logpdf(y_test, line.predict(X_test), sigma).mean()
    click.echo(f"Mean log density of {len(y_test)} held-out wines (higher is better):")
    click.echo(f"  {score:5.2f}  KCEF, chosen and fitted on the other {len(y_train)}")
    click.echo(f"  {baseline:5.2f}  linear regression with one Gaussian error for all")
    return clone(search.best_estimator_)


def print_table(p: Any, X: Array, y: Array) -> None:
    """What the densities at some colours say, beside what was seen there."""
    click.echo(
        f"colour  mean  median  90% interval  P(y > {BETWEEN})   seen*  "
        f"smallest region with 90%"
    )
    for (x,), density in zip(COLOURS, p, strict=True):
        low, high = density.interval(0.9)
        seen = np.mean(y[np.abs(X[:, 0] - x) < 1.0] > BETWEEN)
        region = " or ".join(f"{a:.1f} to {b:.1f}" for a, b in density.hpd(0.9))
        click.echo(
            f"{x:6g}  {density.mean():4.1f}  {density.median():6.1f}  {low:3.1f} to "
            f"{high:3.1f}    {density.sf(BETWEEN):10.0%}  {seen:6.0%}  {region}"
        )
    click.echo("* share of the wines whose colour is within 1 of this one")
    for (x,), density in zip(COLOURS, p, strict=True):
        mean = density.mean()
        if not any(a <= mean <= b for a, b in density.hpd(0.9)):
            click.echo(
                f"At colour {x:g} the mean, {mean:.1f}, is where hardly a wine is."
            )


def draw(model: KCEF, p: Any, X: Array, y: Array) -> Any:
    """The heat map with the wines, and three densities; returns the figure."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12.5, 4.8), layout="constrained", width_ratios=[1.25, 1]
    )
    model.plot(X, y, ax=left)
    left.set(xlabel="colour intensity", ylabel="flavanoids", title="p(y|x) and data")
    p.plot(ax=right, color=PENS, label=[f"colour {x:g}" for (x,) in COLOURS])
    right.plot(p.mean(), p.pdf(p.mean()), "ko", markersize=5, label="mean")
    right.set(xlabel="flavanoids", title="p(y|x) at three colours")
    right.legend(frameon=False)
    for (x,), pen in zip(COLOURS, PENS, strict=True):
        left.axvline(x, color=pen, linestyle=":", linewidth=1.5)
    return figure
