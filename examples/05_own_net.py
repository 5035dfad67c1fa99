"""
Your own encoder and your own net
=================================

A smaller encoder from a folder, and a CNN on images.

Run ``python examples/05_own_net.py``; about half a minute. The method trains clones of your net
with its own loss and learning-rate schedule. Layers, optimizer, batch size and initial rate are
those of the net.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast, logging

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

# %%
# Another encoder
# ---------------
# An encoder is a name on the Hugging Face hub (``SelfPretrainingClassifier("bert-base-uncased")``)
# or a folder with ``config.json``, ``model.safetensors`` and the files of the tokenizer. Here a
# tiny one with random weights is written to a folder: it shows the way, and knows no language.
posts = make_short_texts(300, n_labeled=100, weights=[0.7], random_state=0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words += sorted({word for text in posts.data for word in text.lower().split()})
logging.disable_progress_bar()
temporary = tempfile.TemporaryDirectory()
folder = temporary.name
BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(vocab_size=len(words), intermediate_size=64, **size)
BertModel(config).save_pretrained(folder)

net = BertClassifier(folder, lr=3e-3, n_threads=1)
clf = SelfPretrainingClassifier(net, step_size=0.5, finetune_epochs=15, random_state=0)
clf.fit(posts.data, posts.target_partial)
hidden = posts.target_partial == -1
found = clf.predict(posts.data[hidden])
print(f"F1 on the posts without a label: {f1_score(posts.target[hidden], found):.3f}")
temporary.cleanup()


# %%
# A net on images
# ---------------
# Any skorch net works whose module returns logits: one number for each class, no softmax.
class CNN(nn.Module):
    """Two convolutions, for images of 8 x 8 pixels."""

    def __init__(self, n_classes=10):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 8, kernel_size=3, padding=1), nn.ReLU()),
            *(nn.Conv2d(8, 16, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(16 * 4 * 4, n_classes)),
        )

    def forward(self, X):
        return self.layers(X)


digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)  # (n, channels, height, width)
X, X_test, y_true, y_test = train_test_split(
    images, digits.target, test_size=500, stratify=digits.target, random_state=0
)
_, labeled = train_test_split(np.arange(len(X)), test_size=50, stratify=y_true, random_state=0)
y = np.full(len(X), -1)
y[labeled] = y_true[labeled]

# %%
# The net starts from random weights, so both stages get many more epochs than the defaults.
training = {"optimizer": torch.optim.Adam, "lr": 2e-3, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(CNN, criterion=nn.CrossEntropyLoss, **training)
epochs = {"pretrain_epochs": 8, "finetune_epochs": 80}
one = SelfPretrainingClassifier(net, max_iter=0, random_state=0, **epochs).fit(X, y)
spt = SelfPretrainingClassifier(net, step_size=0.5, random_state=0, **epochs).fit(X, y)
accuracy = [clf.score(X_test, y_test) for clf in (one, spt)]
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
bars = ax.bar(["50 labels", "and 1,247 images\nwithout"], accuracy, width=0.5)
ax.bar_label(bars, fmt="%.3f")
ax.set(ylabel="accuracy on 500 test images", ylim=(0, 1))
plt.show()
