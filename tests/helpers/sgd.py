"""Plain gradient descent, for independent implementations of the methods."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import softmax
from sklearn.datasets import make_moons

from helpers.nets import MLP
from sklearn_spt._random import class_balanced_draws, derive_seed


def partial_moons(n, n_labeled, noise):
    """Two moons with labels for the first rows, and the true classes."""
    X, truth = make_moons(n, noise=noise, random_state=0)
    return X.astype(np.float32), np.where(np.arange(n) < n_labeled, truth, -1), truth


def sgd_net(X, codes, *path, epochs, R=0.1, B=8, module=MLP, hook=None):
    """Train a net with a separate loop; seeds and draws are those of the package."""
    torch.manual_seed(derive_seed(0, *path))
    net = module()
    rng = np.random.default_rng(derive_seed(0, *path))
    per_epoch = -(-len(X) // B)
    for e in range(epochs):
        rows = class_balanced_draws(codes, rng)
        for b in range(per_epoch):
            batch = rows[b * B : (b + 1) * B]
            net.zero_grad()
            z = net(torch.from_numpy(X[batch]))
            torch.nn.functional.cross_entropy(z, torch.from_numpy(codes[batch])).backward()
            rate = R * (1 - (e * per_epoch + b) / (epochs * per_epoch))
            with torch.no_grad():
                for p in net.parameters():
                    p -= rate * p.grad
        if hook is not None and hook(net, e + 1):
            break
    return net


def probabilities(module, X):
    """Class probabilities of a torch module."""
    with torch.no_grad():
        return softmax(module(torch.from_numpy(X)).double().numpy(), axis=1)


def assert_same_weights(net, module, atol=1e-5):
    """Check that a fitted skorch net has the weights of a module."""
    ours = net.module_.state_dict()
    for name, weight in module.state_dict().items():
        torch.testing.assert_close(ours[name], weight, rtol=1e-4, atol=atol)
