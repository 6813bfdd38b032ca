"""
Which model suits a table?
==========================

``compare`` runs the S-VNN, the same network without edges and on the dense covariance, and the models that one would
try, on the same splits. What has to be chosen or scaled is learned from the training rows of each split. ``svnn
compare FILE --target COLUMN`` does the same from the command line, and writes a report.
"""

from svnn.comparison import compare, plot
from svnn.datasets import load_tecator

data = load_tecator(target="protein")
models = ["S-VNN", "without edges", "ridge", "SVM", "boosting", "always the mean"]
found = compare(data.X, data.y, quick=True, models=models, name="Tecator, protein")
figure = plot(found)

# %%
# Three sentences that are true to the scores: which model to use, whether the covariance helps, and what to keep in
# mind.

for sentence in found.sentences():
    print("-", sentence)

# %%
# The network without edges is the control. Paired over the splits:

test = found.paired_test("S-VNN", "without edges")
print(f"difference {test.difference:.2f}, 95 % interval from {test.low:.2f} to {test.high:.2f}, p = {test.p:.3f}")
