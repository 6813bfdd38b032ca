"""
Wearables: activities of people that the model has not met
==========================================================

Sensors on the body record what people do. Windows of one person resemble each other, so a random split lets the model
recognise the person, and promises more than a new customer will see. Split by person.
"""

import numpy as np
from sklearn.pipeline import make_pipeline

from svnn import SVNNClassifier
from svnn.paper import load_dsads
from svnn.plotting import PredictionErrorDisplay
from svnn.preprocessing import WindowFeatures

try:
    data = load_dsads(segments=range(1, 7))
    X, activity, person, source = data.X, np.array(data.target_names)[data.y], data.groups, "DSADS"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the recordings
    rng = np.random.default_rng(0)
    person, label = np.repeat(np.arange(1, 9), 24), np.tile(np.repeat(np.arange(4), 6), 8)
    habit = rng.uniform(0.7, 1.3, (9, 4, 15, 1))
    size = np.abs(rng.standard_normal((4, 15, 1)))[label] * habit[person, label]
    X = size * rng.standard_normal((len(label), 15, 125))
    activity = np.array(["sitting", "walking", "running", "cycling"])[label]
    source = "made-up recordings"
print(f"{source}: {len(X)} windows, {X.shape[1]} channels, {len(set(activity))} activities, {len(set(person))} people")

# %%
# Every channel is a node of the graph, and statistics of its window are the values of the node. The covariance of the
# channels is learned from the training rows.


def predictions(train: np.ndarray) -> np.ndarray:
    """Fit on some rows, and predict the others."""
    network = make_pipeline(WindowFeatures(), SVNNClassifier(random_state=0, members=4, max_epochs=20))
    return network.fit(X[train], activity[train]).predict(X[~train])


anyone = np.random.default_rng(0).permutation(len(X)) < 0.75 * len(X)
print(f"a random quarter held out: {np.mean(predictions(anyone) == activity[~anyone]):.1%} right")

predicted = np.empty_like(activity)
for pair in ([1, 2], [3, 4], [5, 6], [7, 8]):  # every person is held out once, with one other
    others = ~np.isin(person, pair)
    predicted[~others] = predictions(others)
    print(f"people {pair} held out: {np.mean(predicted[~others] == activity[~others]):.1%} right")
print(f"mean over all people: {np.mean(predicted == activity):.1%} right")

# %%
# What is taken for what, by models that have not met the person:

display = PredictionErrorDisplay.from_predictions(activity, predicted)
display.figure_.set_size_inches(9, 8)
