"""Runs that end in a table and a plot: the demo, and every figure and table of the paper.

Each experiment is a file of its own: ``stability-samples`` is ``stability_samples.py``. This file imports
nothing, so that the list of them can be shown at once.
"""

#: What ``svnn reproduce`` knows, in the order of the paper.
EXPERIMENTS = {
    "frequency-responses": "PCA's ideal filter against a covariance filter; the 2-D generalised response",
    "q-insights": "the stability term Q of ACV and RCV, entry by entry and against the size of the covariances",
    "covariance-distributions": "normalised absolute covariances of every data set",
    "support-recovery": "F1, precision and recall of the support against the number of samples",
    "stability-samples": "error and embedding difference against the number of samples (SparseCov)",
    "stability-dimension": "error and embedding difference against the number of features, T = 250",
    "stochastic-synthetic": "error against the keep-probability p (LargeCov, SmallCov), with its bias and variance",
    "stochastic-real": "score against the keep-probability p on every real data set",
    "performance": "score against forward time at equal architecture on every real data set",
    "table": "the main table: all variants and baselines, searched on validation data, on every real data set",
}
