"""Train the network in a PyTorch loop of your own. Every epoch sees another random sparsification of the covariance."""

import torch

from svnn import RCV, as_operator
from svnn.nn import SVNN
from svnn.paper import make_large_cov

data = make_large_cov(n_samples=400, n_features=40, random_state=0)
x = torch.tensor(data.X, dtype=torch.float32)[..., None]  # (samples, nodes, values per node)
y = torch.tensor(data.y, dtype=torch.float32)[:, None]

rcv = RCV(p=0.5, random_state=0).fit(data.X)
torch.manual_seed(0)
network = SVNN(in_features=1, out_features=1, hidden=(16, 16), order=2)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for epoch in range(30):
    shift = as_operator(rcv.sample(random_state=epoch))  # the network gets the covariance with every call
    loss = torch.nn.functional.mse_loss(network(x, shift), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.2f}, {shift.density:.0%} of the covariance kept")
