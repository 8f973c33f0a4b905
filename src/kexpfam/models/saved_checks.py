"""Checks of the parts of a model file that are regressions, and what checks share.

Every check raises ValueError with a few words about what is wrong.
"""

from typing import Any

import numpy as np

from kexpfam.base_densities import Frame, GaussianProcessFrame, LinearFrame
from kexpfam.regression import (
    GaussianProcess,
    Hyperparameters,
    InducingProcess,
    LinearLocationScale,
    LogScale,
    LogScaleFeatures,
    Scaling,
)

# Log scales beyond this have no squares that a double can hold.
_LARGEST_LOG_SCALE = 300.0

# Numbers in standard units are not beyond this: four of them can be multiplied.
_LARGEST = 1e75


def require(condition: Any, problem: str) -> None:
    """Refuse a file with this problem unless a condition holds."""
    if not condition:
        raise ValueError(problem)


def require_shapes(owner: Any, **expected: tuple[int, ...]) -> None:
    """Refuse arrays of other shapes."""
    for name, shape in expected.items():
        seen = np.shape(getattr(owner, name))
        require(
            seen == shape,
            f"array {name} of {type(owner).__name__} is {seen} instead of {shape}",
        )


def require_positive(owner: Any, *names: str) -> None:
    """Refuse numbers that are zero or negative."""
    for name in names:
        positive = np.all(np.asarray(getattr(owner, name)) > 0)
        require(positive, f"{name} of {type(owner).__name__} must be positive")


def require_moderate(owner: Any, *names: str) -> None:
    """Refuse numbers in standard units that only damage can have made."""
    for name in names:
        moderate = np.all(np.abs(getattr(owner, name)) <= _LARGEST)
        require(moderate, f"array {name} of {type(owner).__name__} is too large")


def require_lengths(owner: Any, *names: str) -> None:
    """Refuse lengths that are not positive, or that nothing can be divided by."""
    require_positive(owner, *names)
    require_moderate(owner, *names)
    for name in names:
        ordinary = np.all(np.asarray(getattr(owner, name)) >= 1.0 / _LARGEST)
        require(ordinary, f"{name} of {type(owner).__name__} is too small")


def length(owner: Any, name: str) -> int:
    """Length of an array with one axis."""
    shape = np.shape(getattr(owner, name))
    require(len(shape) == 1, f"array {name} of {type(owner).__name__} is {shape}")
    return shape[0]


def height(owner: Any, name: str) -> int:
    """Rows of an array with two axes, at least one."""
    shape = np.shape(getattr(owner, name))
    sound = len(shape) == 2 and shape[0] > 0
    require(sound, f"array {name} of {type(owner).__name__} is {shape}")
    return shape[0]


def check_scaling(scaling: Scaling) -> None:
    """Centre and scale of the same columns."""
    require_shapes(scaling, scale=(length(scaling, "center"),))
    require_positive(scaling, "scale")


def check_hyperparameters(h: Hyperparameters) -> None:
    """Positive numbers of an ordinary size."""
    length(h, "lengthscales")
    require_lengths(h, "lengthscales")
    variances = "signal_variance", "linear_variance", "noise_variance"
    require_positive(h, *variances)
    require_moderate(h, *variances)


def check_process(process: GaussianProcess) -> None:
    """Rows, coefficients and scalings that belong together."""
    n, p = height(process, "X"), length(process.hyperparameters, "lengthscales")
    require_shapes(process, X=(n, p), coefficients=(n,), noise=(n,))
    require_shapes(process.x_scaling, center=(p,))
    require_shapes(process.y_scaling, center=(1,))
    require_positive(process, "noise")
    # The covariance is not factorised before it is needed, so no NaN would show here.
    require_moderate(process, "X", "coefficients", "noise")


def check_inducing_process(process: InducingProcess) -> None:
    """Points, coefficients of features and scalings that belong together."""
    m, p = height(process, "inducing"), length(process.hyperparameters, "lengthscales")
    require_shapes(process, inducing=(m, p), coefficients=(m + p + 1,))
    require_shapes(process, directions=(height(process, "directions"), m + p + 1))
    require_shapes(process.x_scaling, center=(p,))
    require_shapes(process.y_scaling, center=(1,))
    require_moderate(process, "inducing", "coefficients", "directions")


def check_features(features: LogScaleFeatures) -> None:
    """Bumps in the columns that are scaled."""
    p = length(features.x_scaling, "center")
    require_shapes(features, centers=(height(features, "centers"), p))
    require_shapes(features.mean_scaling, center=(1,))
    require_moderate(features, "centers")
    require_lengths(features, "width")


def check_bounds(scale: LogScale | LinearLocationScale) -> None:
    """Bounds in order, with finite exponentials."""
    ordinary = -_LARGEST_LOG_SCALE < scale.lower <= scale.upper < _LARGEST_LOG_SCALE
    require(ordinary, f"the log scales of {type(scale).__name__} have no bounds")


def check_log_scale(scale: LogScale) -> None:
    """A coefficient for each feature."""
    m, p = scale.features.centers.shape
    require_shapes(scale, coefficients=(p + 1 + m,))
    require_moderate(scale, "intercept", "coefficients")
    check_bounds(scale)


def check_line(line: LinearLocationScale) -> None:
    """A coefficient for each column, and one more."""
    p = length(line.x_scaling, "center")
    require_shapes(line, location=(1 + p,), log_scale=(1 + p,))
    require_moderate(line, "location", "log_scale")
    check_bounds(line)


def check_process_frame(frame: GaussianProcessFrame) -> None:
    """A process, and perhaps a log scale, for each column of y."""
    d = len(frame.processes)
    require(d and len(frame.log_scales) == d, "a frame has no log scale per column")
    require_shapes(frame, center=(d,), unit=(d,))
    require_positive(frame, "unit")
    frame_columns(frame)


def check_linear_frame(frame: LinearFrame) -> None:
    """A pair of lines for each column of y."""
    d = len(frame.models)
    require(d, "a frame has no columns")
    require_shapes(frame, center=(d,), unit=(d,))
    require_positive(frame, "unit")
    frame_columns(frame)


def frame_columns(frame: Frame) -> tuple[int, int]:
    """Columns of x, the same for all parts of a frame, and columns of y."""
    if isinstance(frame, GaussianProcessFrame):
        scalings = [process.x_scaling for process in frame.processes]
        scales = [scale for scale in frame.log_scales if scale is not None]
        scalings += [scale.features.x_scaling for scale in scales]
    else:
        assert isinstance(frame, LinearFrame)  # `KINDS` has no other
        scalings = [model.x_scaling for model in frame.models]
    columns = {len(scaling.center) for scaling in scalings}
    require(len(columns) == 1, "the columns of a frame have different conditions")
    return columns.pop(), len(frame.unit)
