"""
Five thousand features
======================

The full covariance of N features has N² entries. Beyond 4096 features the sparsifiers compute it in tiles and keep
what survives the threshold, so the full matrix never exists. The same works for 100,000 features on one machine.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from svnn import BlendRegressor, HardThreshold, SVNNRegressor

rng = np.random.default_rng(0)
sources = rng.standard_normal((400, 100), dtype=np.float32)  # a hundred things that are not seen
X = sources.repeat(50, axis=1) + rng.standard_normal((400, 5000), dtype=np.float32)  # each in fifty features
y = sources[:, :5].sum(1)

sizes, dense, kept = (500, 1000, 2000, 5000), [], []
for n in sizes:
    start = time.perf_counter()
    C = HardThreshold(sparse_output=True).fit(X[:, :n]).covariance_
    seconds = time.perf_counter() - start
    dense.append(8 * n**2 / 1e6)
    kept.append((C.data.nbytes + C.indices.nbytes + C.indptr.nbytes) / 1e6)
    print(f"{n} features: {C.nnz / n:.1f} entries a row are kept, {kept[-1]:.1f} MB, {seconds:.1f} s")

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
axes[0].spy(C[:300][:, :300], markersize=0.8, color="#0072B2")
axes[0].set_title("entries that were kept, first 300 features", y=1.08)
axes[1].loglog(sizes, dense, "s--", color="#5A5A5A", label="full matrix")
axes[1].loglog(sizes, kept, "o-", color="#D55E00", label="what is kept")
axes[1].set(xlabel="features", ylabel="memory (MB)", title="storage in double precision")
axes[1].set_xticks(sizes, [str(n) for n in sizes], minor=False)
axes[1].minorticks_off()
axes[1].legend(frameon=False)

# %%
# A model trains on it as on any other table. The target of this example is linear in the features, and the fitted blend
# finds that out: it says which part of the model, networks with edges, networks without them or a line, earned how much
# weight.

model = BlendRegressor(SVNNRegressor(members=2, max_epochs=10), random_state=0).fit(X[:300], y[:300])
print(model)
print(f"R² on the rows that were held out: {model.score(X[300:], y[300:]):.2f}")
print({part: round(float(weight), 2) for part, weight in model.blend_.items()})

# %%
# On a GPU, give ``device="cuda"`` or leave ``device="auto"``; data that are a tensor on the GPU stay there.
