"""
A map of the regions that tell the age
======================================

Which parts of the cortex does a prediction of age rest on? Each of the 68 regions of the Desikan–Killiany atlas gets
its mean contribution, in years, drawn where it lies: a sketch of the outer and the inner side of both hemispheres,
not a brain surface.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patheffects import withStroke

from svnn import BlendRegressor, SVNNRegressor
from svnn.inspection import feature_contributions
from svnn.paper import load_thickness

# Where regions lie on the outer and on the inner side: from front (0) to back (1), and from bottom (0) to top (1).
OUTER = {
    "superiorfrontal": (0.27, 0.92), "rostralmiddlefrontal": (0.13, 0.70), "caudalmiddlefrontal": (0.36, 0.77),
    "frontalpole": (-0.01, 0.55), "parsorbitalis": (0.09, 0.33), "parstriangularis": (0.19, 0.52),
    "parsopercularis": (0.34, 0.61), "lateralorbitofrontal": (0.22, 0.18), "precentral": (0.48, 0.87),
    "postcentral": (0.59, 0.74), "supramarginal": (0.67, 0.58), "superiorparietal": (0.73, 0.90),
    "inferiorparietal": (0.82, 0.68), "lateraloccipital": (0.95, 0.40), "insula": (0.37, 0.38),
    "transversetemporal": (0.50, 0.55), "superiortemporal": (0.54, 0.37), "bankssts": (0.71, 0.40),
    "middletemporal": (0.62, 0.22), "inferiortemporal": (0.74, 0.08), "temporalpole": (0.44, 0.12),
}  # fmt: skip
INNER = {
    "rostralanteriorcingulate": (0.20, 0.48), "caudalanteriorcingulate": (0.30, 0.75),
    "posteriorcingulate": (0.54, 0.66),
    "isthmuscingulate": (0.64, 0.50), "medialorbitofrontal": (0.17, 0.24), "paracentral": (0.55, 0.90),
    "precuneus": (0.74, 0.77), "cuneus": (0.91, 0.60), "pericalcarine": (0.82, 0.43), "lingual": (0.80, 0.25),
    "parahippocampal": (0.55, 0.30), "entorhinal": (0.38, 0.17), "fusiform": (0.60, 0.10),
}  # fmt: skip
PLACES = OUTER | INNER
names = [f"{side}_{region}_thickness" for side in ("lh", "rh") for region in PLACES]

try:
    data = load_thickness("ixi")
    X, age, names, source = data.X, data.y, data.feature_names, "IXI"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the table
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 85, 400)
    front = np.array([1 - PLACES[name.split("_")[1]][0] for name in names])  # the front ages most
    X = 2.6 - 0.008 * front * age[:, None] + 0.15 * rng.standard_normal((400, 68))
    source = "made-up thickness"

train = np.random.default_rng(0).permutation(len(X)) < 0.75 * len(X)
model = BlendRegressor(SVNNRegressor(max_epochs=60), random_state=0).fit(X[train], age[train])
found = feature_contributions(model, X[~train])
years = dict(zip(names, np.abs(found.contributions).mean(0), strict=True))
print(f"{source}: mean absolute error {np.abs(model.predict(X[~train]) - age[~train]).mean():.1f} years")

figure, axes = plt.subplots(2, 2, figsize=(13, 8.6), layout="constrained")
for column, (side, hemisphere) in enumerate((("lh", "left"), ("rh", "right"))):
    for axis, places, view in ((axes[0, column], OUTER, "outer"), (axes[1, column], INNER, "inner")):
        x, z = np.array(list(places.values())).T
        # Front is to the left on the left side of the head seen from outside, and mirrored on the other.
        x = x if (side == "lh") == (view == "outer") else 1 - x
        colour = [years[f"{side}_{region}_thickness"] for region in places]
        drawn = axis.scatter(x, z, s=700, c=colour, cmap="viridis", vmin=0, vmax=max(years.values()), edgecolor="white")
        for region, a, b in zip(places, x, z, strict=True):
            label = axis.text(a, b - 0.055, region, ha="center", va="top", fontsize=8.5)
            label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        axis.set(xlim=(-0.12, 1.12), ylim=(-0.08, 1.05), title=f"{hemisphere} hemisphere, {view} side")
        axis.axis("off")
figure.colorbar(drawn, ax=axes, label="mean size of the contribution (years)", shrink=0.7)

# %%
# The regions that move predictions most, and the gap between the sums of all contributions and the predictions:

for name, value in found.top(6):
    print(f"{names[int(name[1:])] if name not in names else name:42} {value:.2f} years")
total = found.baseline + found.contributions.sum(1)
print(f"largest gap: {np.abs(total - model.predict(X[~train])).max():.1e} years")

# %%
# Regions are strongly correlated. A region that the network does not read may tell as much as its neighbour that it
# does read, so such a map says what *this* model uses. Compare several seeds before a conclusion is drawn from one
# region.
