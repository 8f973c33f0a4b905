"""Fitted models to and from files.

Kernels and base densities are frozen values, so a file names their class and fields.
Only the classes listed here can be named: a file cannot make anything else.
"""

import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam import base_densities, kernels
from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity, MonotoneTransform, TrainingResponses
from kexpfam.errors import CannotSaveError, FileFormatError
from kexpfam.kernels import JointKernel, SumOfProducts
from kexpfam.models.chart import Chart
from kexpfam.models.family import FittedFamily
from kexpfam.score_matching import KernelExpansion
from kexpfam.storage import read_container, write_container

_VALUES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        kernels.Constant,
        kernels.Gaussian,
        kernels.InverseMultiquadric,
        kernels.Matern,
        kernels.Product,
        kernels.RationalQuadratic,
        kernels.Sum,
        kernels.SumOfProducts,
        base_densities.GaussianBase,
        base_densities.GeneralizedGaussianBase,
        base_densities.MarginalBase,
        base_densities.Gaussianize,
        base_densities.Rescaled,
        base_densities.StudentBase,
        base_densities.TransformedBase,
        base_densities.TruncatedBase,
        base_densities.UniformBase,
        base_densities.YeoJohnson,
    )
}

# Arrays of a fitted family and their shapes in terms of n rows, p and d columns.
_SHAPES = {
    "x_center": "p",
    "x_scale": "p",
    "y_center": "d",
    "y_scale": "d",
    "X": "np",
    "Y": "nd",
    "first": "nd",
    "second": "nd",
    "zeroth": "n",
}
# Of these a fit has at least one; a file says which.
_COEFFICIENTS = ("zeroth", "first", "second")


def save_model(estimator: Any, family: FittedFamily, path: str | Path) -> None:
    """Write a fitted estimator.

    Raises:
        CannotSaveError: It holds a part without a safe representation, such as a
            scikit-learn regressor or a kernel of the user's own.
    """
    chart = family.chart
    if chart.frame is not None:
        raise CannotSaveError(
            f"A model with base={estimator.base!r} cannot be saved: fitted "
            f"scikit-learn regressors have no file format that is safe to open. Save "
            f"the data and fit again."
        )
    if family.bridge is not None:
        raise CannotSaveError(
            "A model with fit_method='bridged' cannot be saved yet; use "
            "fit_method='likelihood', or save the data and fit again."
        )
    parameters = estimator.get_params(deep=False)
    seed = parameters.get("random_state")
    # A generator's state is not part of the model; a seed is.
    whole = isinstance(seed, int | np.integer)
    parameters["random_state"] = int(seed) if whole else None
    coefficients = {
        name: array
        for name in _COEFFICIENTS
        if (array := getattr(family.T, name)) is not None
    }
    description = {
        "model": type(estimator).__name__,
        "parameters": {name: _encode(value) for name, value in parameters.items()},
        "feature_names": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "kernel": _encode(family.T.kernel),
        "base": _encode(family.base),
        "transform": _encode(chart.transform),
        "support": _encode(chart.support.tolist()),
        "lam": family.lam,
        "rcond": family.rcond,
        "seed": family.seed,
        "coefficients": list(coefficients),
    }
    arrays = {
        "x_center": chart.x_center,
        "x_scale": chart.x_scale,
        "y_center": chart.y_center,
        "y_scale": chart.y_scale,
        "X": family.T.X,
        "Y": family.T.Y,
    }
    arrays |= coefficients
    write_container(path, arrays, description)


def read_model(
    path: str | Path,
) -> tuple[str, dict[str, Any], list[str], FittedFamily]:
    """Class name, parameters, feature names and fitted family of a saved model.

    Raises:
        FileFormatError: The file is not a complete, consistent model.
    """
    arrays, description = read_container(path)
    try:
        _check_arrays(arrays, description["coefficients"])
        kernel = _decode(description["kernel"])
        base = _decode(description["base"])
        if not isinstance(kernel, JointKernel) or not isinstance(base, BaseDensity):
            raise ValueError("kernel or base is something else")
        numbers = [float(description[key]) for key in ("lam", "rcond")]
        if not (all(map(math.isfinite, numbers)) and numbers[0] > 0):
            raise ValueError("lam or rcond is not a positive number")
        expansion = KernelExpansion(
            kernel,
            arrays["X"],
            arrays["Y"],
            zeroth=arrays.get("zeroth"),
            first=arrays.get("first"),
            second=arrays.get("second"),
        )
        # Touch kernel and base once, so that parameters of a wrong length show up here.
        expansion.value(arrays["X"][:1], arrays["Y"][:1])
        n, d = arrays["Y"].shape
        base.prepared(
            TrainingResponses(arrays["Y"], np.ones(n), np.zeros(d), np.ones(d))
        )
        if not np.isfinite(base.log_density(arrays["Y"])).all():
            raise ValueError("the base density does not cover the data")
        parameters = {
            str(name): _decode(value)
            for name, value in description["parameters"].items()
        }
        chart = Chart(
            x_center=arrays["x_center"],
            x_scale=arrays["x_scale"],
            y_center=arrays["y_center"],
            y_scale=arrays["y_scale"],
            support=_support(description["support"], d),
            transform=_transform(description.get("transform"), d),
        )
        family = FittedFamily(
            chart=chart,
            base=base,
            T=expansion,
            lam=numbers[0],
            rcond=numbers[1],
            seed=int(description["seed"]),
        )
        names = [str(name) for name in description["feature_names"]]
        columns = chart.p or family.d
        if names and len(names) != columns:
            raise ValueError("feature names do not match the columns")
        kind = str(description["model"])
        terms = kernel.terms if isinstance(kernel, SumOfProducts) else ()
        if kind == "KEF" and (chart.p or len(terms) != 1):
            raise ValueError("a KEF has no conditions and one kernel")
        if kind == "KCEF" and not chart.p:
            raise ValueError("a KCEF has conditions")
        return kind, parameters, names, family
    except FileFormatError:
        raise
    except Exception as error:  # whatever a hostile description provokes
        raise FileFormatError(
            f"{str(path)!r} is not a complete kexpfam model ({error})."
        ) from error


def _support(value: Any, d: int) -> Array:
    ends = np.array(_decode(value), dtype=float)
    if ends.shape != (d, 2) or not np.all(ends[:, 0] < ends[:, 1]):
        raise ValueError("the support is not an interval for each column")
    return ends


def _transform(value: Any, d: int) -> MonotoneTransform | None:
    transform = _decode(value)
    if transform is None:
        return None
    if not isinstance(transform, MonotoneTransform) or d != 1:
        raise ValueError("the transform is something else, or of another column")
    # Touch it once, so that parameters of a wrong length show up here.
    middle = transform.inverse(np.zeros((1, d)))
    if not np.isfinite(transform.log_slope(middle)).all():
        raise ValueError("the transform is not a finite function")
    return transform


def _check_arrays(arrays: dict[str, Array], coefficients: Any) -> None:
    known = {str(name) for name in coefficients} & set(_COEFFICIENTS)
    names = set(_SHAPES) - set(_COEFFICIENTS) | known
    if not known or set(arrays) != names:
        raise ValueError(f"arrays {sorted(arrays)} instead of {sorted(names)}")
    n, d = np.shape(arrays["Y"]) if np.ndim(arrays["Y"]) == 2 else (0, 0)
    p = np.size(arrays["x_center"])
    sizes = {"n": n, "d": d, "p": p}
    for name, array in arrays.items():
        expected = tuple(sizes[letter] for letter in _SHAPES[name])
        if array.dtype != np.float64 or array.shape != expected or n < 1 or d < 1:
            raise ValueError(f"array {name} is {array.dtype}{array.shape}")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"array {name} has entries that are not finite")
    if np.any(arrays["x_scale"] <= 0) or np.any(arrays["y_scale"] <= 0):
        raise ValueError("scales must be positive")


def _encode(value: Any) -> Any:
    """JSON for numbers, strings, tuples and the values listed above."""
    if is_dataclass(value) and _VALUES.get(type(value).__name__) is type(value):
        parts = {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
        return {"class": type(value).__name__, **parts}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"class": "float", "value": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CannotSaveError(
        f"{value!r} cannot be saved: only the kernels and base densities that come "
        f"with kexpfam have a file representation."
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    name = value.get("class")
    parts = {key: _decode(item) for key, item in value.items() if key != "class"}
    if name == "float":
        return float(parts["value"])
    if name not in _VALUES:
        raise ValueError(f"unknown class {name!r}")
    return _VALUES[name](**parts)
