"""What all estimators share: of p(y|x), everything that follows from `given(X)`."""

import copy
import itertools
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kexpfam._parallel import (
    on_threads,
    one_of_many_threads,
    single_threaded_blas,
    thread_count,
)
from kexpfam._progress import Progress
from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_confidence,
    check_count,
    check_levels,
    check_weights,
)
from kexpfam.data import adopt, conditions
from kexpfam.distributions import BLOCK_ROWS, Density
from kexpfam.estimators.frames import FrameColumns, as_frame
from kexpfam.family import Limits
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.sampling import Sampler, resolve_sampler
from kexpfam.tables import Coding, TableCoder

Result = TypeVar("Result")


class DensityEstimator(DensityMixin, BaseEstimator):
    """An estimator of p(y).

    Attributes:
        extra_: What was saved with it, if it was loaded from a file.
    """

    extra_: dict[str, Any] | None = None
    _limits = Limits()

    @abstractmethod
    def score_samples(self, X: ArrayLike) -> Array:
        """Log p of each row, (n,)."""

    def score(
        self,
        X: ArrayLike,
        y: None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean of log p over the rows; higher is better."""
        log_p = self.score_samples(X)
        return float(
            np.average(log_p, weights=check_weights(sample_weight, len(log_p)))
        )


# What `given(X)` returns.
D = TypeVar("D", bound=Density)


class ConditionalEstimator(RegressorMixin, BaseEstimator, Generic[D]):
    """An estimator of p(y|x); concrete ones give its density and learn it.

    Attributes:
        extra_: What was saved with it, if it was loaded from a file.
        coder_: What codes the tables that it takes; None if X was plain numbers.
    """

    extra_: dict[str, Any] | None = None
    coder_: TableCoder | None = None
    n_features_in_: int
    _takes_tables = False  # whether X may be more than numbers without gaps
    _limits = Limits()
    neighbourhood_: Neighbourhood
    n_jobs: int | None

    @abstractmethod
    def _density(self, X: Array) -> D:
        """Densities at validated conditions."""

    @property
    @abstractmethod
    def _response_columns(self) -> int:
        """How many columns y has."""

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
        return self._density(self._conditions(X))

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log p(y_a|x_a) of each row, (n,)."""
        X, Y = self._conditions(X), response_columns(as_numbers("y", y))
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
        """Mean of log p(y_a|x_a); higher is better."""
        log_p = self.score_samples(X, y)
        return float(
            np.average(log_p, weights=check_weights(sample_weight, len(log_p)))
        )

    def predict(self, X: ArrayLike) -> Array:
        """Conditional means, (n,) or (n, d)."""
        return self._blockwise(self._conditions(X), lambda p, _: p.mean())

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike) -> Array:
        """Conditional quantiles, (n, k) for k levels; one column of y only."""
        X = self._conditions(X)
        levels = np.atleast_1d(check_levels("quantiles", quantiles))
        self._require_one_column("predict_quantiles")
        return self._blockwise(X, lambda p, _: p.quantile(levels))

    def predict_interval(self, X: ArrayLike, confidence: float = 0.9) -> Array:
        """Central intervals with this probability, (n, 2); one column of y only."""
        X = self._conditions(X)
        confidence = check_confidence(confidence)
        self._require_one_column("predict_interval")
        return self._blockwise(X, lambda p, _: p.interval(confidence))

    def predict_frame(
        self,
        X: Any,
        quantiles: ArrayLike | None = (0.05, 0.5, 0.95),
        interval: float | None = None,
        above: ArrayLike | None = None,
    ) -> Any:
        """A table of p(·|x): a row for each row of X, a column for each number.

        Args:
            X: The conditions. A frame of pandas gives one of pandas, with its index; a
                frame of Polars gives one of Polars; an array gives one of pandas.
            quantiles: Levels, for the columns `q0.05`, `q0.5`, ...; None for none.
            interval: Probability of a central interval, for `low` and `high`.
            above: Thresholds t, for the probabilities `P(y>t)`.

        Returns:
            A frame with the columns `mean` and `std`, and those that were asked for,
            in this order. For one column of y; of several,
            `given(X).marginal(column)` has the same numbers where there is one.

        Raises:
            MissingDependencyError: An array came in, and pandas is not installed.
            ValueError: Several columns of y, or a number out of range.

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
        conditions = self._conditions(X)
        self._require_one_column("predict_frame")
        wanted = FrameColumns.of(quantiles, interval, above)
        values = self._blockwise(conditions, lambda p, _: wanted.values(p))
        return as_frame(wanted.names, values, X)

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
        conditions = self._conditions(X)
        # Blocks are drawn at the same time, so each has a generator of its own.
        several = len(conditions) > BLOCK_ROWS
        own = rng.spawn(-(-len(conditions) // BLOCK_ROWS)) if several else [rng]
        return self._blockwise(
            conditions,
            lambda p, rows: p.rvs(n_samples, own[rows.start // BLOCK_ROWS], chosen),
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
        return self.neighbourhood_.count(self._conditions(X))

    def plot(self, X: ArrayLike, y: ArrayLike | None = None, ax: Any = None) -> Any:
        """Heat map of p(y|x) with quantile lines and the data; returns the Axes.

        For one column of x and one of y.
        """
        from kexpfam.display import ConditionalDensityDisplay

        return ConditionalDensityDisplay.from_estimator(self, X, y, ax=ax).ax_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # `score` is a mean log density, not R², so thresholds on R² do not apply.
        tags.regressor_tags.poor_score = True
        tags.input_tags.allow_nan = tags.input_tags.sparse = self._takes_tables
        return tags

    def _conditions(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        if self._takes_tables:
            return conditions(self, X)
        return validate_data(self, X, dtype=np.float64, reset=False)

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
            model.coder_ = None
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

    def _blockwise(self, X: Array, work: Callable[[Any, slice], Array]) -> Array:
        """Results for all rows, block by block on all cores."""
        return np.concatenate(in_blocks(self._density, X, work, n_jobs=self.n_jobs))


def in_blocks(
    densities: Callable[[Array], Any],
    X: Array,
    work: Callable[[Any, slice], Result],
    *,
    n_jobs: int | None,
    progress: Progress | None = None,
    block_rows: int = BLOCK_ROWS,
) -> list[Result]:
    """What `work` makes of the densities of some rows at a time, on all cores.

    What is needed for a block is forgotten with it, so that the cost of a row and the
    memory do not depend on their number. `work` takes densities and which rows they are
    of; `progress` is called with blocks done and all blocks, by whoever did one.
    """
    starts = range(0, max(len(X), 1), block_rows)
    blocks = [slice(start, min(start + block_rows, len(X))) for start in starts]
    lock, done = threading.Lock(), itertools.count(1)

    def result(rows: slice) -> Result:
        found = work(densities(X[rows]), rows)
        if progress is not None:
            with lock:
                progress(next(done), len(blocks))
        return found

    # Entered once, not again by everything that is small. With one thread for all
    # blocks, work inside a block starts no others.
    with single_threaded_blas():
        alone = len(blocks) > 1 and thread_count(n_jobs) == 1
        with one_of_many_threads() if alone else nullcontext():
            return on_threads(result, blocks, n_jobs)


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
