"""What models can be asked about their columns."""

from abc import ABC, abstractmethod
from typing import Any

from kexpfam._typing import ArrayLike, Mask, RandomState
from kexpfam.explanation.columns import ModelColumns
from kexpfam.explanation.effects import Effect, effect
from kexpfam.explanation.extrapolation import ExtrapolationTest
from kexpfam.explanation.importance import Importance, importance
from kexpfam.explanation.shapley import ShapleyValues, explain


class Explained(ABC):
    """A model of p(y|x) whose columns can be asked about."""

    @abstractmethod
    def _columns(self) -> ModelColumns:
        """The columns of the tables that it takes, and its densities at coded rows."""

    def importance(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = "auto",
        n_repeats: int = 10,
        max_rows: int = 200,
        sample_weight: ArrayLike | None = None,
        random_state: RandomState = None,
    ) -> Importance:
        """What is lost without each column, on rows that the model has not seen.

        Without a column the law of a row is the average of p(y|x) over values that the
        column has in other rows: in similar ones ("conditional", what the column tells
        beyond the others), or in any ("marginal"). Lost are log density, in nats, CRPS
        and the width of 90 % intervals, in the units of y.

        Args:
            X: Conditions, as in `fit`, of held-out rows. Categories, dates and gaps
                count as the one column of the table that they are.
            y: Responses, or the name of their column in X.
            groups: "auto" looks at collinear columns together; None at each alone; or
                names of columns by name of their group.
            n_repeats: How many values are averaged over. Few make losses too large.
            max_rows: How many rows are scored; of more, so many are drawn.
            sample_weight: Weight of each row.
            random_state: Seed or generator of all exchanges.

        Returns:
            Losses with standard errors, the largest first; `print` shows a table,
            `plot()` bars, `to_frame()` is a frame.

        Raises:
            ValueError: Too few rows, other lengths, NaN in y, or unknown columns.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x = rng.normal(size=(300, 2))
            >>> y = x[:, 0] + 0.5 * rng.normal(size=300)
            >>> from kexpfam import KCEF
            >>> model = KCEF(random_state=0).fit(x[:150], y[:150])
            >>> found = model.importance(x[150:], y[150:], random_state=0)
            >>> found.names
            ('x0', 'x1')
            >>> found.loss("x0").value > 0.3
            True
        """
        return importance(
            self._columns(),
            X,
            y,
            groups=groups,
            n_repeats=n_repeats,
            max_rows=max_rows,
            sample_weight=sample_weight,
            random_state=random_state,
        )

    def effect(
        self,
        column: Any,
        X: Any,
        of: Any = "mean",
        *,
        bins: int = 20,
        max_rows: int = 500,
        random_state: RandomState = None,
    ) -> Effect:
        """How p(y|x) changes along a column, averaged over rows.

        These are accumulated local effects: rows only get values near their own, so
        that effects of columns that go together are not mixed. Where most of the rows
        are unlike the data all the same, the effect is marked.

        Args:
            column: Its name, or its number from zero.
            X: Rows to average over, as in `fit`; those where the column is missing are
                left out.
            of: "mean", "median", "std", "width" (of 90 % intervals), "quantiles",
                "P(y>2.5)", the level of a quantile such as 0.9, a function of
                densities, or "density": the mean of p(y|x) over rows near each value.
            bins: How many stretches a column of numbers has at most.
            max_rows: How many rows are averaged over; of more, so many are drawn.
            random_state: Seed or generator.

        Returns:
            Values with standard errors; `plot()` draws them, `to_frame()` is a frame.

        Raises:
            ValueError: Several columns of y, an unknown column or `of`, or one value
                only.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x = rng.normal(size=(300, 2))
            >>> y = x[:, 0] + 0.5 * rng.normal(size=300)
            >>> from kexpfam import KCEF
            >>> model = KCEF(random_state=0).fit(x, y)
            >>> found = model.effect("x0", x, of="mean", bins=4, random_state=0)
            >>> bool(np.all(np.diff(found.values[:, 0]) > 0))
            True
        """
        return effect(
            self._columns(),
            column,
            X,
            of,
            bins=bins,
            max_rows=max_rows,
            random_state=random_state,
        )

    def explain(
        self,
        x: Any,
        of: Any = "mean",
        *,
        background: Any = None,
        groups: Any = None,
        max_background: int = 100,
        n_permutations: int | str | None = None,
        random_state: RandomState = None,
    ) -> ShapleyValues:
        """Why a number of p(y|x) is what it is at a row: Shapley values of the columns.

        What columns add sums to the difference between the number at x and its mean
        over the background.

        Args:
            x: One row: a frame with one, values by name, or a flat array.
            of: "mean", "median", "std", "width" (of the 90 % interval), "P(y>2.5)", the
                level of a quantile such as 0.9, or a function of densities.
            background: Rows to compare with, as in `fit`; None for training rows, of
                which fitted models and their files keep up to a thousand.
            groups: None explains each column; "auto" takes columns that are collinear
                in the background together, which are else compared at values that
                never occur; or names of columns by name of their group.
            max_background: How many of them are used; of more, so many are drawn.
            n_permutations: Pairs of orders drawn for each row of the background; "all"
                evaluates all subsets of the columns; None does so where these are few,
                and draws orders otherwise.
            random_state: Seed or generator.

        Returns:
            What each column adds, with a standard error if rows of the background or
            orders were drawn; `print` shows a table, `plot()` bars, `to_frame()` is a
            frame.

        Raises:
            ValueError: Several rows, several columns of y, an unknown `of`, or no
                background.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x = rng.normal(size=(300, 2))
            >>> y = x[:, 0] + 0.5 * rng.normal(size=300)
            >>> from kexpfam import KCEF
            >>> model = KCEF(random_state=0).fit(x, y)
            >>> found = model.explain([2.0, 0.0], of=0.9, random_state=0)
            >>> bool(found.values[0] > 10 * abs(found.values[1]))
            True
        """
        return explain(
            self._columns(),
            x,
            of,
            background=background,
            groups=groups,
            max_background=max_background,
            n_permutations=n_permutations,
            random_state=random_state,
        )

    def extrapolates(self, X: Any) -> Mask:
        """Which rows of X are unlike all that the model was fitted to, (n,).

        Each value of such a row may be ordinary: it is their combination that does not
        occur, as of a diamond of three carats and four millimetres. One in a hundred
        rows of the data themselves is marked.

        Args:
            X: Rows, as in `fit`.

        Raises:
            ValueError: The model keeps no rows to compare with.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> a = rng.normal(size=200)
            >>> x = np.column_stack([a, a + 0.02 * rng.normal(size=200)])
            >>> from kexpfam import KCEF
            >>> model = KCEF(select=None).fit(x, a + rng.normal(size=200))
            >>> model.extrapolates([[1.0, 1.0], [1.0, -1.0]])
            array([False,  True])
        """
        columns = self._columns()
        if columns.background is None:
            raise ValueError(
                "This model keeps no rows to compare X with; build a "
                "kexpfam.explanation.ExtrapolationTest of those it was fitted to."
            )
        test = ExtrapolationTest.of(columns.background[0])
        return test.is_unlike(columns.encode(X))
