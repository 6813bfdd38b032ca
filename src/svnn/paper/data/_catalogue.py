"""The data sets that loaders of svnn know: how to call them, what they are, and whether their files are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from svnn.datasets._files import PathLike, find_file
from svnn.paper.data._thickness import find_tables
from svnn.paper.data._uci import DSADS, MHEALTH, REALDISP, Source, find_members

#: Looks for the files in a folder, and raises FileNotFoundError where they are not.
Finder = Callable[[PathLike | None], object]


@dataclass(frozen=True)
class DataSet:
    """A data set: the call of its loader, its rows and features as published, and what is in it."""

    call: str
    shape: str
    what: str
    find: Finder

    def found(self, root: PathLike | None = None) -> bool:
        """Return whether the files are in the data folder."""
        try:
            self.find(root)
        except FileNotFoundError:
            return False
        return True


def _file(*names: str) -> Finder:
    return lambda root: find_file(root, names, "", "")


def _zip(source: Source) -> Finder:
    return lambda root: find_members(source, root)


def _thickness(name: str) -> Finder:
    return lambda root: find_tables(name, root)


CATALOGUE = (
    DataSet("load_tecator()", "215 × 100", "near-infrared spectra of meat: fat, water, protein", lambda root: None),
    DataSet('load_thickness("ixi")', "556 × 68", "thickness of the cortex: age", _thickness("ixi")),
    DataSet('load_thickness("braindev")', "1668 × 68", "thickness of the cortex: age", _thickness("braindev")),
    DataSet('load_thickness("adni1")', "68 regions", "thickness of the cortex: age", _thickness("adni1")),
    DataSet('load_thickness("adni2")', "68 regions", "thickness of the cortex: age", _thickness("adni2")),
    DataSet('load_genes("golub")', "72 × 7129", "gene expression: two leukaemias", _file("genes_golub.npz")),
    DataSet('load_genes("gordon")', "181 × 12533", "gene expression: two cancers", _file("genes_gordon.npz")),
    DataSet("load_dsads()", "9120 × 45 × 125", "worn sensors: activity, by person", _zip(DSADS)),
    DataSet("load_mhealth()", "23 channels", "worn sensors: activity, by person", _zip(MHEALTH)),
    DataSet("load_realdisp()", "117 channels", "worn sensors: activity, by person", _zip(REALDISP)),
    DataSet("load_stocks()", "1258 × 452", "closing prices: volatility, return", _file("stockdata.npz")),
    DataSet("load_meats()", "215 × 100", "Tecator's spectra from a file", _file("meats.csv.gz", "meats.csv")),
    *(
        DataSet(f'load_released("{name}")', "1000 × 100", "the paper's synthetic draws", _file(f"{name}.csv*"))
        for name in ("SparseCov", "LargeCov", "SmallCov")
    ),
)
