"""The picture of the landing page that moves: p(y|x) at all x, as numbers for a script.

    python docs/pictures/drag.py [folder [rows]]

The rows and the model are those of `landing.py`; `docs/images/drag.js` draws them.
Densities are sixteen-bit shares of the highest one, so that the file is small.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
from landing import make_rows
from style import IMAGES

from kexpfam import AutoKCEF

PLACES = np.linspace(0.0, 10.0, 101)
HEIGHTS = np.linspace(-5.2, 5.2, 157)


def data(rows: int) -> str:
    """A script that holds rows, densities, means and 90 % regions."""
    X, y = make_rows(rows)
    p = AutoKCEF(random_state=0).fit(X, y).given(PLACES[:, None])
    pdf = p.pdf(HEIGHTS[None])
    top = float(pdf.max())
    shares = np.round(65535 * pdf / top).astype("<u2")
    content = {
        "x": [float(PLACES[0]), float(PLACES[-1]), len(PLACES)],
        "y": [float(HEIGHTS[0]), float(HEIGHTS[-1]), len(HEIGHTS)],
        "top": round(top, 6),
        "pdf": base64.b64encode(shares.tobytes()).decode(),
        "mean": p.mean().round(3).tolist(),
        "regions": [region.round(3).tolist() for region in p.hpd(0.9)],
        "rows": np.column_stack([X[:, 0], y]).round(2).tolist(),
    }
    text = json.dumps(content, separators=(",", ":"))
    return f"// Written by docs/pictures/drag.py.\nwindow.dragData = {text};\n"


def main(folder: str = str(IMAGES), rows: str = "600") -> None:
    path = Path(folder) / "drag_data.js"
    path.write_text(data(int(rows)), encoding="utf-8")
    print(f"Written: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
