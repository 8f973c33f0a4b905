"""The page from Python: as a widget in a notebook, in the browser elsewhere.

In a notebook the page lies in a frame, without a server: what it asks goes to the
kernel as messages of a widget (anywidget, the extra `notebook`), so that it works
wherever widgets do, also if the kernel is on another computer. Without that extra the
report is shown, which needs no answers.
"""

import copy
import sys
import threading
import webbrowser
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array
from kexpfam.errors import MissingDependencyError
from kexpfam.explorer.export import report
from kexpfam.explorer.server import ExplorerServer, plain, said
from kexpfam.explorer.subject import Question, Subject, controls_of, kind_of_model
from kexpfam.explorer.view import ConditionalView
from kexpfam.tables import Coding, NumberFeature

# Of the frame in a notebook, in pixels.
_HEIGHT = 900

# What the widget does in the page of the notebook: hand messages to and fro.
_WIDGET = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    frame.style.cssText = `width:100%;border:0;height:${model.get("height")}px`;
    frame.srcdoc = model.get("page");
    const ask = (event) => {
      if (event.source === frame.contentWindow && event.data && event.data.kexpfam)
        model.send(event.data.kexpfam);
    };
    const answer = (kexpfam) => {
      if (frame.contentWindow) frame.contentWindow.postMessage({ kexpfam }, "*");
    };
    window.addEventListener("message", ask);
    model.on("msg:custom", answer);
    el.appendChild(frame);
    return () => {
      window.removeEventListener("message", ask);
      model.off("msg:custom", answer);
    };
  },
};
"""


class Exploration:
    """The page of a model and rows, as `model.explore(X, y)` returns it.

    In a notebook the last expression of a cell is shown: the page, or the report if
    anywidget is not installed. Elsewhere `open` serves the page to this computer's
    browser until `close`, as `kexpfam explore` does.

    Args:
        view: What answers the page's questions.

    Attributes:
        view: The same.
        address: Where the page is while it is served; None if it is not.
    """

    def __init__(self, view: ConditionalView) -> None:
        self.view = view
        self._server: ExplorerServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str | None:
        """Where the page is while it is served; None if it is not."""
        return None if self._server is None else self._server.address

    def open(self, port: int = 0, *, browser: bool = True) -> Self:
        """Serve the page to this computer, in the background, and open it.

        Args:
            port: Where to listen; 0 for any that is free.
            browser: Whether to open it in the browser.
        """
        if self._server is None:
            self._server = ExplorerServer(self.view, port)
            serve = self._server.serve_forever
            self._thread = threading.Thread(target=serve, daemon=True)
            self._thread.start()
        if browser:
            webbrowser.open(self._server.address)
        return self

    def wait(self) -> None:
        """Wait until the page is closed, or Ctrl-C: for the end of a script."""
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Serve the page no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = self._thread = None

    def write(self, path: str | Path) -> None:
        """Write the report, one file that needs no server and no script."""
        Path(path).write_text(report(self.view), encoding="utf-8")

    def widget(self) -> Any:
        """The page as a widget; MissingDependencyError without anywidget."""
        anywidget = needed("anywidget", "for the page in a notebook", "notebook")
        traitlets = needed("traitlets", "for the page in a notebook", "notebook")
        fields = {
            "_esm": _WIDGET,
            "page": traitlets.Unicode(embedded_page()).tag(sync=True),
            "height": traitlets.Int(_HEIGHT).tag(sync=True),
        }
        # A class can be made only here, where anywidget is known to be there.
        made = type("ExplorerWidget", (anywidget.AnyWidget,), fields)()
        made.on_msg(lambda _, content, __: made.send(answered(self.view, content)))
        return made

    def __repr__(self) -> str:
        subject = self.view.subject
        where = self.address or "open() serves it, write(path) makes a report"
        return f"<Exploration of {subject.target}, {len(subject.X)} rows: {where}>"

    def _repr_html_(self) -> str:
        page = escape(report(self.view), quote=True)
        style = f"width:100%;border:0;height:{_HEIGHT}px"
        return f'<iframe sandbox style="{style}" srcdoc="{page}"></iframe>'

    def _display_(self) -> Any:
        """What marimo shows in its place: it takes HTML before widgets otherwise."""
        if self.address is not None:
            return repr(self)
        try:
            return self.widget()
        except MissingDependencyError:
            return sys.modules["marimo"].Html(self._repr_html_())

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if self.address is not None:
            return {"text/plain": repr(self)}
        try:
            return self.widget()._repr_mimebundle_(**kwargs)
        except MissingDependencyError:
            return {"text/plain": repr(self), "text/html": self._repr_html_()}


def explored(
    model: Any,
    X: Array,
    y: Any = None,
    *,
    coding: Coding | None,
    title: str | None,
    target: str,
) -> Exploration:
    """The page of a model of coded rows; served at once where there is no notebook.

    Args:
        model: With `given(X)`, of one column of y.
        X: Rows as the model takes them, (n, p).
        y: What was observed, (n,); None for nothing.
        coding: What the columns stand for; None for numbers.
        title: What the page is called; None for what the model is.
        target: Name of y.
    """
    if coding is None:
        names = getattr(model, "feature_names_in_", None)
        names = [f"x{j}" for j in range(X.shape[1])] if names is None else names
        numeric = [NumberFeature(str(name), 0.0, 0.0, 1.0) for name in names]
        coding = Coding(tuple(numeric), None)
        model = copy.copy(model)  # of rows without names
        model.__dict__.pop("feature_names_in_", None)
    values = np.full(len(X), np.nan) if y is None else np.asarray(y, dtype=float)
    values = values.ravel()
    if len(values) != len(X):
        raise ValueError(f"y must have {len(X)} rows like X, got {len(values)}.")
    controls, numbers = controls_of(coding, X), np.arange(1, len(X) + 1)
    name = title or kind_of_model(model)
    view = ConditionalView(
        Subject(model, controls, target, name, X, values, numbers, "the data")
    )
    found = Exploration(view)
    return found if in_notebook() else found.open()


def in_notebook() -> bool:
    """Whether what an expression returns is shown as a page: Jupyter, Colab, marimo."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"


def embedded_page() -> str:
    """The page with style and script inside, which asks whoever shows it."""
    folder = resources.files("kexpfam.explorer") / "page"
    html, style, script = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("index.html", "style.css", "script.js")
    )
    for old, new in (
        ('<link rel="icon" href="icon.svg" type="image/svg+xml">\n', ""),
        ('  <img src="icon.svg" alt="" width="34" height="34">\n', ""),
        ('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>"),
        ('<script src="script.js" defer></script>\n', ""),
        ("</body>", f"<script>window.embedded = true;\n{script}</script></body>"),
        (
            "This page comes from your computer and asks nobody else. Ctrl-C in the "
            "terminal ends it.",
            "This page asks the kernel of the notebook.",
        ),
    ):
        assert old in html, old
        html = html.replace(old, new)
    return html


def answered(view: Any, content: Any) -> dict[str, Any]:
    """The answer to a message of the page, with the number of its question."""
    name = content.get("name") if isinstance(content, dict) else None
    fields = content.get("fields") if isinstance(content, dict) else None
    number = content.get("id") if isinstance(content, dict) else None
    if name not in view.questions or not isinstance(fields, dict):
        return {"id": number, "error": "There is no such question."}
    try:
        return {"id": number, "answer": plain(view.questions[name](Question(fields)))}
    except Exception as error:  # whatever it is, the page should not wait for it
        return {"id": number, "error": said(error)}
