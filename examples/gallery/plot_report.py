"""
A report to show to a colleague
===============================

``model.report`` writes one HTML file with three sentences on top, scores, the covariance and how dense it is, a graph
with a slider, the filters, contributions and stability. It holds all that it shows and fetches nothing.
"""

import html
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from svnn import BlendClassifier
from svnn.plotting import CovarianceDisplay

wine = load_wine(as_frame=True)
X, y = wine.data, pd.Series(wine.target_names[wine.target], name="cultivar")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
model = BlendClassifier(random_state=0).fit(X_train, y_train)
CovarianceDisplay.from_estimator(model, X_train)

# %%
# The picture above is one of those in the report. The file is written in seconds:

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "wine.html")
    model.report(X_test, y_test, file)
    page = file.read_text(encoding="utf-8")
print(f"{len(page) / 1e6:.1f} MB, nothing to fetch")


# %%
# Here it is:


class Frame:
    """A page within this page."""

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 42rem; border: 1px solid #cccccc; border-radius: 6px"
        return f'<iframe title="the report" srcdoc="{html.escape(page)}" style="{style}"></iframe>'


Frame()
