"""What all estimators share: of p(y|x), everything that follows from `given(X)`."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import threads_of
from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_confidence,
    check_count,
    check_levels,
    check_weights,
)
from kexpfam.data import adopt, conditions, observed_beside, response_numbers
from kexpfam.distributions import BLOCK_ROWS, Density, averaged, in_blocks
from kexpfam.errors import MomentWarning, warn_caller
from kexpfam.estimators.description import described, with_relevance
from kexpfam.estimators.frames import FrameColumns, as_frame
from kexpfam.estimators.unknown import possible_rows
from kexpfam.explanation import Explained, ModelColumns
from kexpfam.family import Limits
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.sampling import Sampler, resolve_sampler
from kexpfam.summaries import ColumnKinds
from kexpfam.tables import Coding, TableCoder, response_name

# Values that are taken for what is not known of a row: of the density of one column of
# y, and of several, whose moments take a hundred densities for each.
VALUES, VALUES_OF_SEVERAL = 32, 8


class DensityEstimator(DensityMixin, BaseEstimator):
    """An estimator of p(y).

    Attributes:
        extra_: What was saved with it, if it was loaded from a file.
    """

    extra_: dict[str, Any] | None = None
    _limits = Limits()

    @abstractmethod
    def score_samples(self, X: ArrayLike) -> Array:
        """Log p of each row, (n,), in nats and in one over the units of the columns."""

    def score(
        self,
        X: ArrayLike,
        y: None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean of log p over the rows, in nats; higher is better.

        Differences between models mean the same whatever the units of the columns are.

        Args:
            X: Rows, (n, d), best such as the model has not seen.
            y: Nothing; scikit-learn's searches pass it.
            sample_weight: Weight of each row.
        """
        log_p = self.score_samples(X)
        return float(
            np.average(log_p, weights=check_weights(sample_weight, len(log_p)))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such rows are left out
        return tags


# What `given(X)` returns.
D = TypeVar("D", bound=Density)


class ConditionalEstimator(Explained, RegressorMixin, BaseEstimator, Generic[D]):
    """An estimator of p(y|x); concrete ones give its density and learn it.

    Attributes:
        extra_: What was saved with it, if it was loaded from a file.
        coder_: What codes the tables that it takes; None if X was plain numbers.
    """

    extra_: dict[str, Any] | None = None
    coder_: TableCoder | None = None
    # How rows were coded, if that was done elsewhere.
    _told_coding: Coding | None = None
    # Which columns of coded rows are gaps and categories, if nobody codes them here.
    _told_kinds: ColumnKinds | None = None
    n_features_in_: int
    _limits = Limits()
    _response_name: str | None = None
    neighbourhood_: Neighbourhood
    n_jobs: int | None

    @abstractmethod
    def _density(self, X: Array) -> D:
        """Densities at validated conditions."""

    @property
    @abstractmethod
    def _response_columns(self) -> int:
        """How many columns y has."""

    def check_saved(self) -> None:
        """Refuse numbers of a file that are no density together.

        Each may be what it is declared to be, and a model of them overflow. So it is
        asked for quantiles where its own rows are, if y is one column.
        """
        if self._response_columns > 1:
            return
        near = self.neighbourhood_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of spikes, for who predicts
            p = self._density(near.center + near.scale * near.rows[:2])
            refuse_no_density(p, "at its own rows")

    def given(self, X: ArrayLike) -> D:
        """The distributions p(·|x) at each row of X, as one object.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KCEF
            >>> x = np.linspace(0, 1, 50)[:, None]
            >>> y = x[:, 0] ** 2 + 0.1 * np.sin(40 * x[:, 0])
            >>> p = KCEF().fit(x, y).given([[0.2], [0.8]])
            >>> p.interval(0.9).shape
            (2, 2)
        """
        conditions = self._asked(X)
        # Entered once, not again by everything that is small.
        with threads_of(self.n_jobs):
            found = self._densities(conditions)
        found._response = self._target
        return found

    @property
    def _target(self) -> str | None:
        """Name of a single column of y, if it was told at the fit or is in a file."""
        coded = None if self.coder_ is None else self.coder_.coding_.target
        return coded or self._response_name

    def _observed(self, X: Any, y: Any) -> Any:
        """Responses, or the columns of X that are named; another name is refused."""
        if isinstance(y, str) and self._target not in (None, y):
            raise ValueError(
                f"y={y!r}, and the model was fitted to {self._target!r}; pass that "
                f"name, or the values themselves."
            )
        return observed_beside(X, y)

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log p(y|x) of each row, (n,), in nats and in one over the units of y.

        Args:
            X: Conditions, as in `fit`.
            y: What was observed there, (n,) or (n, d), or names of columns of X.

        Raises:
            ValueError: Other numbers of rows or columns, or NaN in y.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KCEF
            >>> x = np.linspace(-1, 1, 60)[:, None]
            >>> y = x[:, 0] + 0.1 * np.cos(40 * x[:, 0])
            >>> model = KCEF(random_state=0).fit(x, y)
            >>> at, far = model.score_samples([[0.5], [0.5]], [0.5, 0.9])
            >>> bool(at > far)
            True
        """
        y = response_numbers(self._observed(X, y))
        X, Y = self._asked(X), response_columns(as_numbers("y", y))
        d = self._response_columns
        if Y.shape != (len(X), d):
            raise ValueError(
                f"y must have {len(X)} rows like X and {d} column(s) as in fit, got "
                f"shape {np.shape(y)}."
            )
        if np.isnan(Y).any():
            raise ValueError("y contains NaN; remove these rows.")
        points = Y[:, 0] if d == 1 else Y
        return self._blockwise(X, lambda p, rows: p.logpdf(points[rows]))

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean of log p(y|x) over the rows, in nats; higher is better.

        What searches and `cross_val_score` maximise. Differences between models mean
        the same whatever the units of y are.

        Args:
            X: Conditions, as in `fit`, best of rows that the model has not seen.
            y: What was observed there, (n,) or (n, d), or names of columns of X.
            sample_weight: Weight of each row.

        Raises:
            ValueError: As `score_samples`, or no rows.
        """
        log_p = self.score_samples(X, y)
        if not len(log_p):
            raise ValueError("score is a mean over rows, and X has none.")
        return float(
            np.average(log_p, weights=check_weights(sample_weight, len(log_p)))
        )

    def predict(self, X: ArrayLike) -> Array:
        """Conditional means, (n,) or (n, d).

        Where there is none, as with tails like Cauchy's, medians, and a
        `MomentWarning`; `given(X).mean()` is not a number there.
        """
        conditions = self._asked(X)
        found = self._blockwise(conditions, lambda p, _: p.mean())
        missing = np.isnan(found)
        if self._response_columns == 1 and missing.any():
            warn_caller(
                f"Tails of p(y|x) are too heavy for a mean at {missing.sum()} of "
                f"{len(found)} rows of X, and medians are returned there; "
                f"predict_quantiles(X, 0.5) gives medians everywhere.",
                MomentWarning,
            )
            rows = conditions[missing]
            found[missing] = self._blockwise(rows, lambda p, _: p.median())
        return found

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike) -> Array:
        """Conditional quantiles; one column of y only.

        Args:
            X: Conditions, as in `fit`.
            quantiles: k levels between 0 and 1.

        Returns:
            (n, k); they never cross.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KCEF
            >>> x = np.linspace(-1, 1, 60)[:, None]
            >>> y = x[:, 0] + 0.1 * np.cos(40 * x[:, 0])
            >>> model = KCEF(random_state=0).fit(x, y)
            >>> low, middle, high = model.predict_quantiles([[0.5]], [0.1, 0.5, 0.9])[0]
            >>> bool(low < middle < high)
            True
        """
        X = self._asked(X)
        levels = np.atleast_1d(check_levels("quantiles", quantiles))
        self._require_one_column("predict_quantiles")
        return self._blockwise(X, lambda p, _: p.quantile(levels))

    def predict_interval(self, X: ArrayLike, confidence: float = 0.9) -> Array:
        """Central intervals; one column of y only.

        They hold a new y at x with this probability if the model is right;
        `kexpfam.conformal` has sets that hold it on average whether it is or not.

        Args:
            X: Conditions, as in `fit`.
            confidence: Probability inside.

        Returns:
            Lower and upper ends, (n, 2).
        """
        X = self._asked(X)
        confidence = check_confidence(confidence)
        self._require_one_column("predict_interval")
        return self._blockwise(X, lambda p, _: p.interval(confidence))

    def predict_frame(
        self,
        X: Any,
        quantiles: ArrayLike | None = (0.05, 0.5, 0.95),
        interval: ArrayLike | None = None,
        above: ArrayLike | None = None,
    ) -> Any:
        """A table of p(·|x): a row for each row of X, a column for each number.

        Args:
            X: The conditions. A frame of pandas gives one of pandas, with its index; a
                frame of Polars gives one of Polars; an array gives one of pandas.
            quantiles: Levels, for the columns `q0.05`, `q0.5`, ...; None for none.
            interval: Probability of a central interval, for `low` and `high`; of
                several for `low0.5`, `high0.5`, ...
            above: Thresholds t, for the probabilities `P(y>t)`.

        Returns:
            A frame with the columns `mean` and `std`, and those that were asked for,
            in this order. Of several columns of y each has these, with its name in
            front (`y0 mean`, or `price mean` if it is known), and `P(price>t)`: the
            numbers of `given(X).marginal(column)`. A `KCEF` of several columns has no
            marginals, and quantiles and probabilities there are of 4,000 draws.

        Raises:
            MissingDependencyError: An array came in, and pandas is not installed.
            ValueError: A number is out of range.

        Example:
            >>> import pandas as pd
            >>> from kexpfam import KCEF
            >>> x = np.linspace(0, 1, 50)
            >>> y = x**2 + 0.1 * np.sin(40 * x)
            >>> model = KCEF(random_state=0).fit(pd.DataFrame({"x": x}), y)
            >>> new = pd.DataFrame({"x": [0.2, 0.8]}, index=["a", "b"])
            >>> model.predict_frame(new, 0.5, interval=0.9, above=0.5).round(1)
               mean  std  q0.5  low  high  P(y>0.5)
            a   0.1  0.1   0.1 -0.1   0.2       0.0
            b   0.7  0.1   0.7  0.5   0.8       1.0
        """
        conditions = self._asked(X)
        wanted = FrameColumns.of(quantiles, interval, above)
        values = self._blockwise(conditions, lambda p, _: wanted.values(p))
        return as_frame(wanted.names(self._response_names), values, X)

    def sample(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Draws from p(·|x) at each row, (n, n_samples) or (n, n_samples, d).

        Args:
            X: The conditions.
            n_samples: How many at each of them.
            random_state: Seed or generator.
            sampler: None for independent draws by the inverse distribution function
                (one column of y); or a sampler of `kexpfam.sampling`, or its name, as
                in `given(X).rvs`.
        """
        rng = as_generator(random_state)
        n_samples = check_count("n_samples", n_samples)
        chosen = resolve_sampler(sampler)
        conditions = self._asked(X)
        # Blocks are drawn at the same time, so each has a generator of its own.
        size = self._block_rows(conditions)
        several = len(conditions) > size
        own = rng.spawn(-(-len(conditions) // size)) if several else [rng]
        return self._blockwise(
            conditions,
            lambda p, rows: p.rvs(n_samples, own[rows.start // size], chosen),
        )

    def reliability(self, X: ArrayLike) -> Array:
        """About how many training rows are near each row of X, (n,).

        Where this is below a few, the density rests on the base density or on a
        regression's extrapolation rather than on data.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KCEF
            >>> x = np.linspace(0, 1, 50)[:, None]
            >>> model = KCEF(select=None).fit(x, x[:, 0] + np.sin(9 * x[:, 0]))
            >>> model.reliability([[0.5], [3.0]]).round()
            array([9., 0.])
        """
        return self.neighbourhood_.count(self._conditions(X, least=0))

    def plot(
        self,
        X: Any,
        y: Any = None,
        ax: Any = None,
        *,
        along: int | str | None = None,
    ) -> Any:
        """Heat map of p(y|x) with quantile lines and the data; returns the Axes.

        Args:
            X: Conditions, (n, p), an array or a frame. Of several columns one varies,
                and the others are averaged over the rows most like it.
            y: Responses of one column, (n,), or its name in X, shown as dots; None for
                none.
            ax: Where to draw; None for a new figure.
            along: The column that varies, by name or number; None for the one that
                densities depend on most.
        """
        from kexpfam.display import ConditionalDensityDisplay

        display = ConditionalDensityDisplay.from_estimator(
            self, X, self._observed(X, y), along=along, ax=ax
        )
        return display.ax_

    def explore(self, X: Any, y: Any = None, *, title: str | None = None) -> Any:
        """A page where p(y|x) follows sliders, for one column of y.

        In a notebook it is a widget (with the extra `notebook`; without it a report is
        shown). Elsewhere the page is served to this computer's browser, until the
        program ends or `close()` is called; `write(path)` makes a report of it.

        Args:
            X: Rows to compare with, an array or a frame; ranges of sliders are theirs.
            y: What was observed there, (n,), or its name in X; None for nothing.
            title: What the page is called; None for what the model is.

        Returns:
            A `kexpfam.explorer.Exploration`.
        """
        from kexpfam.explorer import explored

        coded = self._conditions(X)
        self._require_one_column("explore")
        return explored(
            self._of_coded_rows(),
            coded,
            self._observed(X, y),
            coding=None if self.coder_ is None else self.coder_.coding_,
            title=title,
            target=response_name(y) or self._target or "y",
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The arguments, as scikit-learn has it; if fitted, what the model is too."""
        text = super().__repr__(N_CHAR_MAX)
        return f"{text}\n{described(self).in_words()}" if self._is_fitted else text

    def _repr_html_inner(self) -> str:
        if not self._is_fitted:
            return super()._repr_html_inner()
        return with_relevance(self).in_html(super().__repr__())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        found = super()._repr_mimebundle_(**kwargs)
        if "text/html" in found:  # a setting of scikit-learn can turn it off
            found["text/html"] = self._repr_html_inner()
        return found

    @property
    def _is_fitted(self) -> bool:
        try:
            check_is_fitted(self)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # `score` is a mean log density, not R², so thresholds on R² do not apply.
        tags.regressor_tags.poor_score = True
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    @property
    def _column_kinds(self) -> ColumnKinds | None:
        return self._told_kinds if self.coder_ is None else self.coder_.coding_.kinds

    def _conditions(self, X: ArrayLike, least: int = 1) -> Array:
        check_is_fitted(self)
        return conditions(self, X, least)

    def _asked(self, X: ArrayLike) -> Array:
        """Conditions that densities are asked at; what is not known there is marked."""
        check_is_fitted(self)
        marked = getattr(self, "neighbourhood_", None) is not None
        return conditions(self, X, 0, marked=marked)

    def _densities(self, X: Array) -> D:
        """Densities at validated conditions, of which there may be none.

        Where values are marked as not known they are averages over some they may have.
        """
        if len(X):
            if np.isfinite(X).all():
                return self._density(X)
            coding = self._told_coding
            if coding is None and self.coder_ is not None:
                coding = self.coder_.coding_
            several = self._response_columns > 1
            most = VALUES_OF_SEVERAL if several else VALUES
            found = possible_rows(X, self.neighbourhood_, coding, most)
            parts: D = averaged(self._density(found.X), found.parts)  # type: ignore[assignment]
            return parts
        near = getattr(self, "neighbourhood_", None)
        one = np.zeros((1, X.shape[1]))
        if near is not None:
            one = near.center + near.scale * near.rows[:1]
        none: D = self._density(one)[:0]
        return none

    def _columns(self) -> ModelColumns:
        """The columns of the tables that it takes, and its densities at coded rows."""
        check_is_fitted(self)
        numbered = [f"x{i}" for i in range(self.n_features_in_)]
        near = getattr(self, "neighbourhood_", None)
        kept = None
        if near is not None:
            kept = near.center + near.scale * near.rows, near.weights
        return ModelColumns.of(
            [str(name) for name in getattr(self, "feature_names_in_", numbered)],
            None if self.coder_ is None else self.coder_.coding_,
            self._conditions,
            self._density,
            background=kept,
            response=getattr(self, "_target", None) or "y",
            n_jobs=self.n_jobs,
        )

    def _adopt(self, coder: TableCoder) -> None:
        """Take the tables that a coder codes, instead of coded rows only."""
        adopt(self, coder)
        best = getattr(self, "best_", None)
        if isinstance(best, ConditionalEstimator):
            best._adopt(coder)

    def _of_coded_rows(self) -> Self:
        """The same model for rows that are coded already."""
        model = copy.copy(self)
        if self.coder_ is not None:
            model.coder_, model._told_coding = None, self.coder_.coding_
            model.n_features_in_ = len(self.coder_.coding_.columns)
            model.__dict__.pop("feature_names_in_", None)
        return model

    def _recode(self, coding: object) -> None:
        """Take the coding of a file; ValueError if it is not of this model."""
        if not isinstance(coding, Coding):
            raise ValueError("the coding of the table is something else")
        if len(coding.columns) != self.n_features_in_:
            raise ValueError(
                f"the table is coded as {len(coding.columns)} columns, and the model "
                f"has {self.n_features_in_}"
            )
        self._adopt(TableCoder.of_coding(coding))

    def _require_one_column(self, method: str) -> None:
        if self._response_columns > 1:
            raise ValueError(
                f"{method} is for one column of y, and this model has "
                f"{self._response_columns}; use given(X) or sample(X)."
            )

    @property
    def _response_names(self) -> list[str]:
        """Names of several columns of y, or y0, y1, ...; none for one column."""
        names = getattr(getattr(self, "columns_", None), "names", None)
        several = range(self._response_columns) if names is None else names
        found = [name if isinstance(name, str) else f"y{name}" for name in several]
        return found if len(found) > 1 else []

    def _blockwise(self, X: Array, work: Callable[[Any, slice], Array]) -> Array:
        """Results for all rows, block by block on all cores."""
        how: Any = {"n_jobs": self.n_jobs, "block_rows": self._block_rows(X)}
        return np.concatenate(in_blocks(self._densities, X, work, **how))

    def _block_rows(self, X: Array) -> int:
        """Rows that are evaluated together: fewer where each is several densities."""
        n_open = int((~np.isfinite(X)).any(axis=1).sum())
        if not n_open:
            return BLOCK_ROWS
        return max(1, BLOCK_ROWS * len(X) // (len(X) + VALUES * n_open))


def refuse_no_density(p: Any, where: str) -> None:
    """Refuse densities of one column whose quantiles or log densities are no numbers.

    Raises:
        ValueError: That is so; it is said where.
    """
    levels = [0.01, 0.25, 0.5, 0.75, 0.99]
    quantiles = np.atleast_2d(p.quantile(levels))
    log_p, steps = np.atleast_1d(p.logpdf(quantiles[:, 2])), np.diff(quantiles)
    increase = steps > 0 if p.measure == "lebesgue" else steps >= 0
    sound = np.isfinite(quantiles).all() and increase.all()
    if not sound or not np.isfinite(log_p).all() or np.isnan(p.std()).any():
        raise ValueError(f"it has no density {where}")


def response_columns(y: Array) -> Array:
    """Responses (n,) or (n, d) as (n, d)."""
    Y = np.asarray(y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y


def warn_of_a_column(y: Any, Y: Array) -> None:
    """Warn, as scikit-learn does, of a y (n, 1) where there can be one column only."""
    if np.asarray(y).ndim > 1 and Y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; give it the "
            "shape (n_samples,), for example with ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
