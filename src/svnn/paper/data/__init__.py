"""The data of the paper: generators of synthetic data, and loaders of the official files of real data.

The catalogue has all data sets that svnn knows: how to call their loaders, what they are, and whether their files are
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from svnn.datasets._files import find_file
from svnn.paper.data._thickness import find_tables
from svnn.paper.data._uci import DSADS, MHEALTH, REALDISP, find_members
from svnn.sources._frames import PathLike


@dataclass(frozen=True)
class DataSet:
    """A data set: the call of its loader, its rows and features as published, what is in it, and where its files are.

    ``find`` looks for the files in a folder; None for a data set that comes with the package.
    """

    call: str
    shape: str
    what: str
    find: Callable[[PathLike | None], object] | None

    def found(self, root: PathLike | None = None) -> bool:
        """Return whether the files are in the data folder."""
        try:
            return self.find is None or bool(self.find(root))
        except FileNotFoundError:
            return False


def _file(*names: str) -> partial[Path]:
    return partial(find_file, names=names, title="", where="")


_THICKNESS = {"ixi": "556 × 68", "braindev": "1668 × 68", "adni1": "68 regions", "adni2": "68 regions"}
_RELEASED = ("SparseCov", "LargeCov", "SmallCov")
_SENSORS = "worn sensors: activity, by person"
CATALOGUE = (
    DataSet("load_tecator()", "215 × 100", "near-infrared spectra of meat: fat, water, protein", None),
    *(
        DataSet(f'load_thickness("{name}")', shape, "thickness of the cortex: age", partial(find_tables, name))
        for name, shape in _THICKNESS.items()
    ),
    DataSet('load_genes("golub")', "72 × 7129", "gene expression: two leukaemias", _file("genes_golub.npz")),
    DataSet('load_genes("gordon")', "181 × 12533", "gene expression: two cancers", _file("genes_gordon.npz")),
    DataSet("load_dsads()", "9120 × 45 × 125", _SENSORS, partial(find_members, DSADS)),
    DataSet("load_mhealth()", "23 channels", _SENSORS, partial(find_members, MHEALTH)),
    DataSet("load_realdisp()", "117 channels", _SENSORS, partial(find_members, REALDISP)),
    DataSet("load_stocks()", "1258 × 452", "closing prices: volatility, return", _file("stockdata.npz")),
    DataSet("load_meats()", "215 × 100", "Tecator's spectra from a file", _file("meats.csv.gz", "meats.csv")),
    *(
        DataSet(f'load_released("{name}")', "1000 × 100", "the paper's synthetic draws", _file(f"{name}.csv*"))
        for name in _RELEASED
    ),
)
