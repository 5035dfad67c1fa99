"""
An encoder or a net of your own
===============================

A string names any encoder of the Hugging Face hub: ``SelfPretrainingClassifier("roberta-base")``.
Any skorch net whose module returns logits works, too. Here it is a small net over counts of words.
"""

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import PseudoLabelDisplay

letters = make_short_texts(1500, n_labeled=60, random_state=0)
X = TfidfVectorizer().fit_transform(letters.data).toarray().astype(np.float32)

module = nn.Sequential(nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4))
net = NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.AdamW)
net.set_params(lr=5e-3, batch_size=32)
clf = SelfPretrainingClassifier(net, finetune_epochs=10, random_state=0)
clf.fit(X[:1000], letters.target_partial[:1000])
print("accuracy on other texts:", clf.score(X[1000:], letters.target[1000:]))

# %%
PseudoLabelDisplay.from_estimator(clf)
