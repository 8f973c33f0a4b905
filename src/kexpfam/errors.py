"""Exceptions and warnings of kexpfam.

Each message names the argument, what was seen, and what to do about it.
"""

import sys
import warnings


class KexpfamError(Exception):
    """Base class of the errors that only kexpfam raises."""


class DegenerateDataError(KexpfamError, ValueError):
    """The data cannot define a density: no spread, or too few rows."""


class IllConditionedError(KexpfamError, ArithmeticError):
    """A linear system could not be solved to a useful accuracy."""


class FileFormatError(KexpfamError, ValueError):
    """A model file is damaged, truncated, foreign, or of an unknown version."""


class CannotSaveError(KexpfamError, TypeError):
    """A fitted model holds a part that has no safe file representation."""


class MissingDependencyError(KexpfamError, ImportError):
    """An optional dependency is needed for what was asked."""


class DatasetError(KexpfamError, OSError):
    """A file of benchmark data is missing, damaged, or cannot be downloaded."""


class ConditioningWarning(UserWarning):
    """A linear system was solved, but with fewer digits than usual."""


class NormalizationWarning(UserWarning):
    """The error estimate of a log normaliser is larger than it should be."""


class AccuracyWarning(UserWarning):
    """A number is less accurate than its documentation promises."""


class ConvergenceWarning(UserWarning):
    """An iteration ended before it reached its tolerance."""


class TableWarning(UserWarning):
    """Columns or cells of a table were left out, filled in, or look suspicious."""


class BlindnessWarning(UserWarning):
    """Masses of separated modes are wrong, because score matching does not see them."""


class SamplingWarning(UserWarning):
    """Draws of a sampler should not be trusted."""


class WeightWarning(UserWarning):
    """Weights of rows sum to far more or less than there are rows, and λ follows."""


class MeasureWarning(UserWarning):
    """Atoms or counts were found in y, or log densities of different measures meet."""


class MomentWarning(UserWarning):
    """Tails of y are too heavy for a mean, and another number stands for it."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of the line outside this package that led here.

    Python shows a warning once for each such line, however often it comes up inside.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     warn_caller("2 rows were left out.", TableWarning)
        >>> len(caught)
        1
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    """Whether a module is of this package, or of what calls it for the user."""
    return module.partition(".")[0] in (__name__.partition(".")[0], "sklearn")
