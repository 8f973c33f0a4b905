"""CPU seconds of explanations, and their standard errors.

`AutoKCEF` is fitted to rows of diamonds (nine columns, three of them categories), bike
(17 numbers) and, if named, hitters (19 columns). `explain` is asked about a row that
was held out, `importance` about 300 of them, of which it takes as many as it does by
default. Seconds are CPU time of one process with one BLAS thread. With `--models
FOLDER` fits are kept there; `--label` names what is measured, so that an earlier
version of the package (on PYTHONPATH) is measured with the same models.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import RESULTS, write_result

import kexpfam
from kexpfam import AutoKCEF

TABLES = {
    "diamonds": ("diamonds.csv.gz", "price", ["rownames"]),
    "bike": ("bike.csv.gz", None, []),
    "hitters": ("hitters.csv", "Salary", ["rownames"]),
}
ROWS, OF = 1500, ("mean", 0.9, "width")


def parts(name: str) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Rows to fit, and rows to explain; seed 0."""
    file, target, left_out = TABLES[name]
    path = Path(os.environ["KEXPFAM_DATA"]) / "tables" / file
    table = pd.read_csv(path, header="infer" if target else None)
    table.columns = [c if isinstance(c, str) else f"c{c}" for c in table.columns]
    target = target or str(table.columns[-1])
    table = table.dropna(subset=[target]).sample(frac=1.0, random_state=0)
    X, y = table.drop(columns=[target, *left_out]), table[target].to_numpy(float)
    n = min(ROWS, int(0.75 * len(X)))
    return X[:n], y[:n], X[n : n + 300], y[n : n + 300]


def model_of(name: str, folder: Path | None) -> Any:
    path = None if folder is None else folder / f"{name}.kexpfam"
    if path is not None and path.exists():
        return kexpfam.load(path)
    X, y, _, _ = parts(name)
    model = AutoKCEF(n_jobs=1, random_state=0).fit(X, y)
    if path is not None:
        model.save(path)
    return model


def seconds(work: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def measure(name: str, folder: Path | None) -> dict[str, Any]:
    model = model_of(name, folder)
    _, _, X, y = parts(name)
    model.predict(X[:50])  # what is imported and built once
    result: dict[str, Any] = {"columns": X.shape[1]}
    for of in OF:
        took, found = seconds(partial(model.explain, X[:1], of, random_state=0))
        result[f"explain {of}, s"] = round(took, 2)
        largest = float(np.abs(found.values).max())
        result[f"explain {of}, largest error"] = round(
            float(found.standard_errors.max()) / largest, 4
        )
    took, found = seconds(partial(model.importance, X, y, random_state=0))
    result["importance, s"] = round(took, 2)
    result["importance"] = {
        str(own): [round(loss.value, 4), round(loss.standard_error, 4)]
        for own, loss in zip(
            found.names, found.losses["conditional"]["log_density"], strict=True
        )
    }
    return result


def main() -> None:
    words = sys.argv[1:]

    def said(option: str) -> str | None:
        return words[words.index(option) + 1] if option in words else None

    folder = None if said("--models") is None else Path(str(said("--models")))
    label, only = said("--label") or "now", said("--tables")
    names = ["diamonds", "bike"] if only is None else only.split(",")
    path = RESULTS / "explanation.json"
    result = json.loads(path.read_text())["result"] if path.exists() else {}
    for name in names:
        found = measure(name, folder)
        print(label, name, found, flush=True)
        result.setdefault(name, {})[label] = found
        write_result("explanation", result)


if __name__ == "__main__":
    main()
