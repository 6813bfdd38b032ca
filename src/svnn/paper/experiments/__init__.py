"""Runs that end in tables and plots: every figure and table of the paper.

Each experiment is one file: ``svnn reproduce stability-samples`` runs ``stability_samples.py``. Read such a file from
top to bottom: what the paper claims, the settings, the jobs, the tables, the plots. This file imports nothing, so that
the list of experiments can be shown at once.
"""

#: What ``svnn reproduce`` can run, and what it shows, in the order of the paper.
EXPERIMENTS = {
    "frequency-responses": "Fig. 1 and 3: PCA as a filter, trained covariance filters, and a response over two shifts",
    "q-insights": "Fig. 4: the stability term Q with ACV and with RCV, against the size of the covariances",
    "covariance-distributions": "Table I and Fig. 5: how large the covariances of every data set are",
    "support-recovery": "Fig. 7: how well estimators find the related pairs, against the number of samples",
    "stability-samples": "Fig. 6: how far a trained network moves, against the number of samples",
    "stability-dimension": "Fig. 8: how far a trained network moves, against the number of features",
    "stochastic-synthetic": "Fig. 9: the error after random sparsification of LargeCov and SmallCov",
    "stochastic-real": "Fig. 10: the score after random sparsification of every real data set",
    "performance": "Fig. 11: score against the time of a forward pass on every real data set",
    "table": "Tables II and III: all models on every real data set, settings chosen on validation data",
}
