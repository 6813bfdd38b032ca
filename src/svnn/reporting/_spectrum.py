"""The eigenvalues of the covariance, and what the learned filters make of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.reporting._density import graph_matrix
from svnn.reporting._html import Markup, element, figure, section
from svnn.reporting._request import Request
from svnn.reporting._svg import Chart, Scale
from svnn.reporting._words import number
from svnn.stability import marchenko_pastur_edge, network_response

#: Features up to which all eigenvalues of a covariance are computed, and how many of the largest beyond.
_ALL, _LARGEST = 1500, 40
#: Numbers in the rows up to which their spectrum is computed: a few seconds.
_MOST_VALUES = 2 * 10**7
#: Eigenvalues drawn, and curves of filters.
_SHOWN, _CURVES = 300, 64


def spectrum_section(request: Request) -> Markup:
    """Return the section with the spectrum and the frequency responses."""
    matrix = graph_matrix(request.model)
    spectrum = eigenvalues(matrix)
    pictures = [_spectrum(request, spectrum, matrix.shape[0]), *_responses(request.model, spectrum)]
    return section(
        "spectrum", "Directions of the data, and what the filters do", element("div", *pictures, class_="pair")
    )


def eigenvalues(matrix: np.ndarray | sp.csr_array) -> np.ndarray:
    """Return the eigenvalues of a symmetric matrix, largest first: all, or the largest of a large one."""
    if matrix.shape[0] <= _ALL:
        dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        return np.linalg.eigvalsh(dense.astype(np.float64))[::-1]
    start = np.ones(matrix.shape[0])  # a fixed start: the same report every time
    try:
        found = eigsh(matrix.astype(np.float64), _LARGEST, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)
    except ArpackNoConvergence as stopped:
        found = stopped.eigenvalues
    return np.sort(found)[::-1]


def sample_eigenvalues(Z: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the correlations of signals (t, N, F), largest first, without the zeros."""
    rows = Z.swapaxes(1, 2).reshape(-1, Z.shape[1]).astype(np.float64)
    rows = rows - rows.mean(0)
    sd = rows.std(0)
    rows /= np.where(sd > 0, sd, 1.0)
    gram = rows.T @ rows if rows.shape[1] <= len(rows) else rows @ rows.T  # their eigenvalues agree
    found = eigenvalues(gram / len(rows))
    return found[found > 1e-10 * max(found[0], 1e-300)]


def _spectrum(request: Request, spectrum: np.ndarray, n: int) -> Markup:
    positive = spectrum[spectrum > 1e-8 * max(spectrum[0], 1e-300)]
    sample, edge = np.zeros(0), 0.0
    if request.Z is not None and request.Z.size <= _MOST_VALUES:
        sample = sample_eigenvalues(request.Z)
        edge = marchenko_pastur_edge(request.n_rows * request.Z.shape[2], n)
    longest = max(len(positive), len(sample), 2)
    chart = Chart(
        "Eigenvalues of the covariance, largest first",
        Scale([1, longest], log=True),
        Scale([*positive, *sample, *([edge] if edge else [])], log=True),
        "number of the eigenvalue",
        "eigenvalue",
    )
    legend = []
    for values, kind, label in ((sample, "c3", "correlations of the rows"), (positive, "c1", "matrix of the model")):
        if len(values):
            few = np.unique(np.geomspace(1, len(values), _SHOWN).astype(int)) - 1
            titles = [f"{label}, number {i + 1}: {number(float(values[i]))}" for i in few]
            chart.dots(few + 1, values[few], kind, titles, 2.5)
            legend.append((f"dot {kind}", label))
    meaning = "Each dot is a direction in the data, and its height says how much variance that direction holds."
    if edge:
        chart.across(edge, "dashed")
        legend.append(("line dashed", f"what noise alone could reach ({number(edge)})"))
        above = int((sample > edge).sum())
        meaning += (
            f" {_above(above)} the dashed line, the Marchenko–Pastur edge for {number(request.n_rows)} rows: what is "
            "above holds more than noise would, what is below may be chance."
        )
    else:
        meaning += " Without rows, or with very many numbers, there is no noise level to compare them with."
    return figure(chart.svg(), meaning, legend=legend, title="Spectrum")


def _above(count: int) -> str:
    return {0: "No direction of the rows is above", 1: "One direction of the rows is above"}.get(
        count, f"{number(count)} directions of the rows are above"
    )


def _responses(model: CovarianceNetwork, spectrum: np.ndarray) -> list[Markup]:
    high = float(spectrum[0])
    if high <= 0:
        return []
    by_log = model._as_trained("use") == "log"
    smallest = float(spectrum[spectrum > 0].min())
    low = max(min(smallest, high / 10), high * 1e-8)
    lam = np.geomspace(low, high, 80) if by_log else np.linspace(0, high, 80)
    pictures = []
    layers = network_response(model, lam)
    for position, response in enumerate(layers):
        curves = response.reshape(len(lam), -1)
        gain = np.sqrt((curves**2).mean(1))
        shown = curves[:, :_CURVES]
        chart = Chart(
            "Frequency responses of the learned filters",
            Scale(lam, log=by_log),
            Scale(np.append(shown.ravel(), gain), zero=True),
            "eigenvalue",
            "factor",
        )
        for curve in shown.T:
            chart.line(lam, curve, "thin")
        chart.line(lam, gain, "c1 bold")
        some = f"{number(curves.shape[1])} filters" if curves.shape[1] <= _CURVES else f"{_CURVES} of the filters"
        pictures.append(
            figure(
                chart.svg(),
                "Each thin line is a filter: the factor by which it multiplies a direction with that eigenvalue. Where "
                "the bold line is high the network listens to such directions, where it is near zero it ignores them.",
                legend=[("line thin", some), ("line c1 bold", "their root mean square")],
                title="Learned filters" if len(layers) == 1 else f"Learned filters, layer {position + 1}",
            )
        )
    return pictures
