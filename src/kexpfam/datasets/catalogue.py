"""What is known about the paper's data sets without having their files.

Fourteen R data sets (those of Sugiyama et al. 2010) for y given x, and three UCI data
sets for joint densities. The papers do not name the target columns: the responses are
those of the help pages, and where another reading is possible it is offered as well.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchmarkFile:
    """The file of one data set, in the words of `Benchmark`."""

    header: str  # names of the columns
    target: str | None  # None where the joint density is modelled
    rows: int
    source: str
    licence: str
    sha256: str
    alternatives: tuple[str, ...] = ()  # other columns that may be meant as the target
    note: str = ""
    preprocessing: str = "none"
    group_sizes: tuple[int, ...] = ()  # rows of each person; they follow each other

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return tuple(self.header.split(","))


_ALR3 = "R package alr3 2.0.8"
_MASS = "R package MASS 7.3-65"
_QUANTREG = "R package quantreg 6.1"
_GPL = "GPL (>= 2)"
_MASS_LICENCE = "GPL-2 or GPL-3; the data are declared not copyright"
_UCI_LICENCE = "CC BY 4.0 on the UCI page (not re-checked); citation asked"
_UCI_RULE = (
    "discrete columns dropped, then one of every pair of columns whose absolute "
    "correlation is above 0.98 (the later is kept)"
)
_ROWS_OF_PERSONS = (
    *(149, 145, 144, 137, 156, 156, 161, 150, 152, 148, 138, 107, 112, 136, 143),
    *(138, 144, 126, 129, 134, 123, 112, 138, 156, 144, 130, 129, 134, 168, 126),
    *(130, 101, 135, 161, 165, 129, 140, 149, 143, 142, 165, 150),
)
_WINE = (
    "fixed acidity,volatile acidity,citric acid,residual sugar,chlorides,"
    "free sulfur dioxide,total sulfur dioxide,density,pH,sulphates,alcohol"
)

CATALOGUE = {
    "caution": BenchmarkFile(
        header="x1,x2,y",
        target="y",
        rows=100,
        source=f"{_ALR3}, data set caution; Cook and Weisberg 1999",
        licence=_GPL,
        sha256="785a5d301a52d05133c717aa8776e850b962f37a2ed9f08f66d7fd33c2b79582",
        note="artificial data",
    ),
    "ftcollinssnow": BenchmarkFile(
        header="Early,Late",
        target="Late",
        rows=93,
        source=f"{_ALR3}, data set ftcollinssnow",
        licence=_GPL,
        sha256="020b2088dbd3660caa465dda78c79e9e84aa452b5511351118b7d0552cde532c",
        preprocessing="year column YR1 left out",
    ),
    "highway": BenchmarkFile(
        header="ADT,Trks,Lane,Acpt,Sigs,Itg,Slim,Len,Lwid,Shld,Hwy,Rate",
        target="Rate",
        rows=39,
        source=f"{_ALR3}, data set highway (C. Hoffstedt)",
        licence=_GPL,
        sha256="b5ac7e1552c4aef9e3cb1ab9986ae5599ddfa66300153dc630eb2c1318a75c9d",
        note="Hwy is categorical; Sigs is 0 in 17 rows, Itg in 13",
        preprocessing="Hwy kept as one integer column (0 MC, 1 FAI, 2 PA, 3 MA)",
    ),
    "heights": BenchmarkFile(
        header="Mheight,Dheight",
        target="Dheight",
        rows=1375,
        source=f"{_ALR3}, data set heights; Pearson and Lee 1903",
        licence=_GPL,
        sha256="89791889c855d10f5bbb950b79033db440588736e4b81dd942212f72d8f58522",
        note="one decimal; 137 rows repeat an earlier row",
    ),
    "sniffer": BenchmarkFile(
        header="TankTemp,GasTemp,TankPres,GasPres,Y",
        target="Y",
        rows=125,
        source=f"{_ALR3}, data set sniffer (J. Rice)",
        licence=_GPL,
        sha256="7f48ab9071eca35c9cc0744c49b58827778ecc90005202c50e53d245e0cf5f74",
        note="Y is an integer with 31 distinct values",
    ),
    "snowgeese": BenchmarkFile(
        header="obs1,obs2,photo",
        target="photo",
        rows=45,
        source=f"{_ALR3}, data set snowgeese",
        licence=_GPL,
        sha256="11401a8d20604b5c88827408664605f61c29f8360c126e27538405d57f5ad9dc",
        alternatives=("obs2",),
        note="counts, mostly rounded to 5 or 10 by the observers; a few large flocks",
        preprocessing="photo, the first column of the source, put last",
    ),
    "GAGurine": BenchmarkFile(
        header="Age,GAG",
        target="GAG",
        rows=314,
        source=f"{_MASS}, data set GAGurine",
        licence=_MASS_LICENCE,
        sha256="538b77889ba2d357dee0a65932214e274f976015f074581b079d4fa748c80788",
        note="rows are sorted by age",
    ),
    "geyser": BenchmarkFile(
        header="waiting,duration",
        target="duration",
        rows=299,
        source=f"{_MASS}, data set geyser; Azzalini and Bowman 1990",
        licence=_MASS_LICENCE,
        sha256="c0242cb451b2e689eaa167eb128dc0a0bd13d7edcef7ce7b8325947e6ad2cfdc",
        alternatives=("waiting",),
        note="durations of exactly 2, 3 and 4 minutes in 23, 2 and 53 rows",
    ),
    "topo": BenchmarkFile(
        header="x,y,z",
        target="z",
        rows=52,
        source=f"{_MASS}, data set topo; Davis 1973",
        licence=_MASS_LICENCE,
        sha256="dccd685f7a224a5e1ff17cfc70e34f52aef32ae0c2c65fb03131700244b71440",
    ),
    "BostonHousing": BenchmarkFile(
        header="crim,zn,indus,chas,nox,rm,age,dis,rad,tax,ptratio,b,lstat,medv",
        target="medv",
        rows=506,
        source=(
            "R package mlbench 2.1-8, data set BostonHousing; Harrison and Rubinfeld "
            "1978"
        ),
        licence="GPL-2",
        sha256="24ec814c9b6c5bb1cae0f6d203636413195ade13a34b62920787599f63eefd7e",
        note="medv is capped at 50 in 16 rows; the original, not the corrected version",
        preprocessing="factor chas coded 0 and 1",
    ),
    "CobarOre": BenchmarkFile(
        header="x,y,z",
        target="z",
        rows=38,
        source=f"{_QUANTREG}, data set CobarOre; Green and Silverman 1994",
        licence=_GPL,
        sha256="aeb59a35c704f0beeb26deb68cfef9aec594b37ec6751367abef48a35005d459",
    ),
    "engel": BenchmarkFile(
        header="income,foodexp",
        target="foodexp",
        rows=235,
        source=f"{_QUANTREG}, data set engel; Koenker and Bassett 1982",
        licence=_GPL,
        sha256="1ab6a5c4e884ef9ad624949d2b7e94652eccd75ba3905d1a46c85d28b153ec49",
    ),
    "mcycle": BenchmarkFile(
        header="times,accel",
        target="accel",
        rows=133,
        source=f"{_MASS}, data set mcycle; Silverman 1985",
        licence=_MASS_LICENCE,
        sha256="93d06e3d834a5c21056b40f16fcd03c4384acff5020e273453d5cd62d730f0c8",
        note="94 distinct times",
    ),
    "BigMac2003": BenchmarkFile(
        header=(
            "Bread,Rice,FoodIndex,Bus,Apt,TeachGI,TeachNI,TaxRate,TeachHours,BigMac"
        ),
        target="BigMac",
        rows=69,
        source=f"{_ALR3}, data set BigMac2003 (UBS 2003)",
        licence=_GPL,
        sha256="6fd8a70acbfd6d3efa5834e46fa4059bb345d539dbd9ea898cc6e05a51a04b46",
        alternatives=("TeachHours",),
        note="one TaxRate is negative (-7.3), as in the source",
        preprocessing=(
            "city names (row labels) left out; BigMac, the first column of the source, "
            "put last"
        ),
    ),
    "red_wine": BenchmarkFile(
        header=_WINE,
        target=None,
        rows=1599,
        source="UCI Wine Quality, red; Cortez et al. 2009",
        licence=_UCI_LICENCE,
        sha256="6e9b83c5fc587e3230a8c1d4700b52cdefd32ab123eb48d0054485dc14f14092",
        note="240 rows repeat an earlier row",
        preprocessing=f"{_UCI_RULE}: quality is dropped",
    ),
    "white_wine": BenchmarkFile(
        header=_WINE,
        target=None,
        rows=4898,
        source="UCI Wine Quality, white; Cortez et al. 2009",
        licence=_UCI_LICENCE,
        sha256="15192bb13b63b7bf8abf219265598a68900cec66495766ff11c59979c23980d0",
        note="937 rows repeat an earlier row",
        preprocessing=f"{_UCI_RULE}: quality is dropped",
    ),
    "parkinsons": BenchmarkFile(
        header=(
            "test_time,motor_UPDRS,total_UPDRS,Jitter(Abs),Jitter:PPQ5,Jitter:DDP,"
            "Shimmer(dB),Shimmer:APQ5,Shimmer:APQ11,Shimmer:DDA,NHR,HNR,RPDE,DFA,"
            "PPE"
        ),
        target=None,
        rows=5875,
        source="UCI Parkinsons Telemonitoring; Tsanas et al. 2010",
        licence=_UCI_LICENCE,
        sha256="82bd3f030a84d4de61d923487c261f8814c3be2ef82a425293461ba8177ab42b",
        note=(
            "42 persons, so that a random split has each on both sides; test_time is "
            "negative in 12 rows"
        ),
        preprocessing=(
            f"{_UCI_RULE}: subject#, age, sex, Jitter(%), Jitter:RAP, Shimmer and "
            f"Shimmer:APQ3 are dropped"
        ),
        group_sizes=_ROWS_OF_PERSONS,
    ),
}
