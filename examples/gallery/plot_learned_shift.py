"""
Learning the graph with the network
===================================

A sparsifier looks at the covariance only. Where edges are learned together with the network, the task has a say too.
Three ways take a few lines each in a torch loop: edges with a penalty (``svnn.nn.LearnedSparsifier``), a precision
matrix that has to explain the data and to serve the network, and a network that is trained on many likely covariances.
The data are made up: features with a sparse covariance, and a target that is a network on that covariance.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from svnn.nn import SVNN, LearnedSparsifier

N, TRAIN, TEST = 20, 100, 500
rng = np.random.default_rng(0)
truth = np.eye(N)
for i, j in rng.permutation(np.argwhere(np.triu(np.ones((N, N)), 1)))[:20]:
    truth[i, j] = truth[j, i] = rng.choice([-1, 1]) * rng.uniform(0.3, 0.5)
truth += max(0, 0.1 - np.linalg.eigvalsh(truth)[0]) * np.eye(N)
edges = np.triu(truth, 1) != 0
rows = rng.multivariate_normal(np.zeros(N), truth, TRAIN + TEST)
x = torch.tensor(rows, dtype=torch.float32)[..., None]
x_train, x_test = x[:TRAIN], x[TRAIN:]
C = np.cov(rows[:TRAIN].T)


def network(seed: int) -> SVNN:
    torch.manual_seed(seed)
    return SVNN(1, 1, hidden=(8,), order=2, activation="tanh", batch_norm=False, mlp=())


with torch.no_grad():  # the mean of node values: nothing but the covariance tells the nodes apart
    y = network(100)(x, torch.tensor(truth, dtype=torch.float32))[:, 0]
    y = (y - y.mean()) / y.std()
y_train, y_test = y[:TRAIN], y[TRAIN:]


def train(shift, parameters=(), penalty=lambda: 0.0, steps=400, seed=0) -> SVNN:
    """Train a network on what ``shift()`` returns, which may be another matrix in every step, or one that learns."""
    model = network(seed)
    optimizer = torch.optim.Adam([*model.parameters(), *parameters], lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x_train, shift())[:, 0] - y_train).square().mean() + penalty()
        loss.backward()
        optimizer.step()
    return model


def error(model: SVNN, matrix: torch.Tensor) -> float:
    """Return the mean squared error for the test rows; the target has variance 1."""
    with torch.no_grad():
        return float((model(x_test, matrix)[:, 0] - y_test).square().mean())


# %%
# **Edges with a penalty.** The sparsifier starts at the sample covariance. Its masks are learned; the penalty is the
# expected share of pairs that stay edges.

sample = torch.tensor(C, dtype=torch.float32)
learned = LearnedSparsifier(C, "concrete")
draws = torch.Generator().manual_seed(0)
on_learned = train(lambda: learned(draws), learned.parameters(), lambda: 0.3 * learned.penalty())
learned.eval()
on_sample = train(lambda: sample)
print(f"sample covariance: error {error(on_sample, sample):.3f}, all {N * (N - 1) // 2} edges")
print(f"learned edges: error {error(on_learned, learned().detach()):.3f}, {learned.density:.0%} of the edges")

# %%
# **A precision matrix for two tasks.** A symmetric matrix :math:`\Theta` is the shift, and pays for explaining the data
# badly: :math:`-\log\det\Theta + \operatorname{tr}(S\Theta) + \lambda |\Theta|_1`, as in the graphical lasso. A factor
# keeps it positive definite.

factor = torch.linalg.cholesky(torch.linalg.inv(sample + 0.1 * torch.eye(N))).requires_grad_()


def precision() -> torch.Tensor:
    lower = factor.tril()
    return lower @ lower.T


def graphical_model() -> torch.Tensor:
    theta = precision()
    off = theta - torch.diag(theta.diagonal())
    return 0.02 * (-torch.logdet(theta) + (sample * theta).sum() + 0.1 * off.abs().sum())


on_precision = train(precision, [factor], graphical_model)
print(f"precision for both: error {error(on_precision, precision().detach()):.3f}")

# %%
# The target was made with the covariance, so a precision is not the best shift here.
#
# **A robust network.** Every step sees another covariance that the data might have had: that of rows drawn with
# replacement. How far do predictions move when the covariance is estimated from new rows?


def resampled() -> torch.Tensor:
    return torch.tensor(np.cov(rows[rng.integers(TRAIN, size=TRAIN)].T), dtype=torch.float32)


on_resampled = train(resampled)
fresh = torch.tensor(np.cov(rows[TRAIN : 2 * TRAIN].T), dtype=torch.float32)


def change(model: SVNN) -> float:
    with torch.no_grad():
        return float((model(x_test, fresh) - model(x_test, sample)).square().mean().sqrt())


for name, model in {"one covariance": on_sample, "many covariances": on_resampled}.items():
    print(f"trained on {name}: error {error(model, sample):.3f}, change {change(model):.3f}")

panels = {
    "sample covariance": C,
    "learned edges": learned.sparsified().toarray(),
    "precision for both": -precision().detach().numpy(),
    "truth": truth,
}
figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained")
for axis, (name, matrix) in zip(axes, panels.items(), strict=True):
    size = np.abs(matrix - np.diag(np.diag(matrix))).max()
    axis.imshow(matrix - np.diag(np.diag(matrix)), cmap="RdBu_r", vmin=-size, vmax=size)
    axis.set(title=name, xticks=[], yticks=[])
kept = np.triu(panels["learned edges"], 1) != 0
pairs = np.triu(np.ones((N, N), dtype=bool), 1)
print(f"kept: {kept[edges].mean():.0%} of the true edges, {kept[pairs & ~edges].mean():.0%} of the other pairs")
