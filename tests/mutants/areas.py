"""Which modules are changed, and the tests that have to notice it.

First those of the module itself, which notice most changes soon, and then the others of
its area; fast ones all, since a change that nothing notices costs as long as all take.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Area:
    """Modules below src/kexpfam with tests of their own, and all tests, below tests."""

    modules: dict[str, tuple[str, ...]]
    tests: tuple[str, ...]

    def own(self, module: str) -> list[str]:
        """The module, for its examples, and its own test files."""
        tests = [f"tests/{name}" for name in self.modules[module]]
        return [f"src/kexpfam/{module}.py", *tests]

    def others(self, module: str) -> list[str]:
        """The other test files of the area."""
        found = []
        for name in self.tests:
            place = ROOT / "tests" / name
            files = sorted(place.glob("test_*.py")) if place.is_dir() else [place]
            found += [file.relative_to(ROOT).as_posix() for file in files]
        return [file for file in found if file not in self.own(module)]


def _in(folder, **modules):
    """Modules of a folder, with test files of the same folder, by name."""
    return {
        f"{folder}/{module}": tuple(f"{folder}/test_{name}.py" for name in names)
        for module, names in modules.items()
    }


AREAS = {
    "linalg": Area({"_linalg": ("test_linalg.py",)}, ()),
    "kernels": Area(
        _in(
            "kernels",
            base=["values", "properties"],
            joint=["values", "properties"],
            profiles=["properties", "derivatives"],
            radial=["properties", "derivatives"],
        ),
        ("kernels",),
    ),
    "score matching": Area(
        {
            "score_matching/sum_gradients": ("selection/test_objectives.py",),
            **_in(
                "score_matching",
                centers=["centers"],
                exact=["exact"],
                expansion=["conditioned", "exact", "low_rank"],
                gaussian_products=["gaussian_products"],
                iterative=["iterative"],
                low_rank=["low_rank"],
                tilted=["conditioned"],
            ),
        },
        ("score_matching", "selection/test_objectives.py"),
    ),
    "partition": Area(
        _in(
            "partition",
            cells=["cells", "line"],
            importance=["importance"],
            line=["line"],
            nodes=["nodes"],
            series=["cells", "line"],
            tempered=["tempered"],
            tensor=["tensor"],
        ),
        ("partition",),
    ),
    "distributions": Area(
        _in(
            "distributions",
            bands=["bands"],
            bounded=["bounded", "one_column"],
            bridged=["bridged"],
            chain_rule=["chain_rule"],
            closed_form=["transformed", "one_column"],
            mixed=["mixed"],
            mixture=["mixture", "one_column"],
            multivariate=["multivariate"],
            normal_mixture=["normal_mixture", "one_column"],
            one_column=["one_column", "shapes", "univariate"],
            recalibrated=["recalibrated", "one_column"],
            regions=["regions", "univariate", "shapes"],
            row_averages=["row_averages"],
            tabulation=["tabulation", "one_column"],
            univariate=["univariate", "transformed", "one_column"],
        ),
        ("distributions",),
    ),
    "persistence": Area(
        _in(
            "persistence",
            container=["container"],
            encoding=["round_trips"],
            estimators=["round_trips", "refusals"],
            registry=["registry"],
        ),
        ("persistence",),
    ),
    "statistics": Area(
        {
            **_in(
                "family",
                blindness=["blindness"],
                clusters=["clusters"],
                isolated_components=["isolated_components", "blindness"],
                neighbourhood=["neighbourhood"],
                valleys=["valleys"],
            ),
            **_in("selection", stacking=["stacking"], supports=["supports"]),
            "metrics/paired": ("test_paired.py",),
            "tables/columns": ("tables/test_columns.py", "tables/test_coding.py"),
        },
        (
            "family/test_clusters.py",
            "family/test_isolated_components.py",
            "family/test_valleys.py",
            "family/test_blindness.py",
            "family/test_neighbourhood.py",
            "selection/test_stacking.py",
            "selection/test_supports.py",
            "test_paired.py",
            "tables",
        ),
    ),
}
