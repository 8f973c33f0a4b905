"""Model files with other numbers, structures and bits, the checksum made right.

A file that someone edited on purpose is opened or refused with a sentence. If it is
opened, what it says of densities are numbers, in bounded time and memory.
"""

import warnings

import numpy as np

from kexpfam import KEF, FactorizedDensity, load
from kexpfam.errors import FileFormatError, KexpfamError
from tests.persistence.files import at, changed, parts, places, write
from tests.persistence.models import FRAME, TABLE, X, scores

MODELS = (
    "plain",
    "marginal",
    "process",
    "linear",
    "lower",
    "KEF",
    "warped",
    "positive",
    "inducing",
    "bounded",
    "truncated",
    "average",
    "average, two columns",
    "average, atoms",
    "average, counts",
    "average, bands",
    "bands",
    "summary",
    "table",
    "two columns",
    "KEF, three columns",
    "bridged",
    "sums",
    "rows",
    "joint",
)
NUMBERS = [
    *(sign * 10.0**k for k in (308, 150, 75, 60, 20, 10, 5) for sign in (1.0, -1.0)),
    *(5e-324, 1e-308, 1e-60, 1e-10, 0.0, -1.0),
]
THINGS = [
    *(None, True, -1, 0, 10**400, "text", "", [], {}, [0, 10**9]),
    *({"class": "os.system"}, {"class": "float", "value": "nan"}, {"object": 0}),
    *({"class": "Gaussian", "lengthscale": 1e-9}, {"array": "family.T.Y"}),
]


def mutated(rng):
    """Arrays and description of a file, changed in one to three places, and how."""
    name = MODELS[rng.integers(len(MODELS))]
    arrays, description = parts(name)
    said = [name]
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(4)
        if kind < 2:
            arrays, what = _other_array(arrays, rng, whole=kind == 1)
        else:
            description, what = _other_place(description, rng, number=kind == 2)
        said.append(what)
    return arrays, description, said


def _other_array(arrays, rng, *, whole):
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, value = arrays[name].copy(), NUMBERS[rng.integers(len(NUMBERS))]
    if not array.size:
        return arrays, f"{name} is empty"
    with np.errstate(all="ignore"):
        if whole:
            array = (array * value).astype(array.dtype)
        else:
            place = rng.integers(array.size)
            array.flat[place] = np.array(value).astype(array.dtype)
    return {**arrays, name: array}, f"{name} {'times' if whole else 'has'} {value:g}"


def _other_place(description, rng, *, number):
    found = [p for p in places(description) if p]
    if number:
        kinds = (int, float)
        found = [p for p in found if type(at(description, p)) in kinds] or found
    place = found[rng.integers(len(found))]
    among = NUMBERS if number else THINGS
    value = among[rng.integers(len(among))]
    return changed(description, place, value), f"{place} is {value!r:.40}"


def attempt(arrays, description, path):
    """What is wrong with the library, or nothing: write a file, open it, ask it."""
    write(path, arrays, description)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except FileFormatError as error:
            text = str(error)
            clear = text.endswith(".") and "\n" not in text and str(path) in text
            return None if clear else f"a refusal that is not clear: {text}"
        try:
            answers = _answers(model)
        except KexpfamError:
            return None  # at these rows, with a sentence
        except ValueError as error:
            if "feature names" in str(error):  # others than the rows here have
                return None
            raise
    wrong = [k for k, answer in answers.items() if np.isnan(answer).any()]
    return f"NaN in {', '.join(wrong)}" if wrong else None


def _answers(model):
    """Log densities, and what else one column has."""
    found = {"score_samples": scores(model)}
    if isinstance(model, KEF | FactorizedDensity) or model._response_columns > 1:
        return found
    x = FRAME[["a", "b"]] if hasattr(model, "feature_names_in_") else X
    p = model.given((x if model.coder_ is None else TABLE)[:2])
    return found | {
        "quantile": p.quantile([0.1, 0.9]),
        "cdf": p.cdf(np.array([0.0, 1.0])),
        "std": p.std(),
    }


def one_case(rng, folder):
    """A random case: how it was made, and what is wrong, or None."""
    arrays, description, said = mutated(rng)
    return "; ".join(said), attempt(arrays, description, folder / "model.kexpfam")
