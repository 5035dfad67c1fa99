"""
Your own encoder and your own net
=================================

Another pretrained encoder by its name or folder, and a skorch net of your own.

The method trains clones of the net, with its own loss and its own schedule of the learning rate.
Layers, optimiser, batch size and initial rate are those of the net.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizerFast, logging

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts

train = make_short_texts(400, n_labeled=32, random_state=0)
test = make_short_texts(400, random_state=1)
y = train.target_partial

# %%
# Another encoder
# ---------------
# A name on the Hugging Face hub will do: ``SelfPretrainingClassifier("bert-base-uncased")``. So
# will a folder with ``config.json``, ``model.safetensors`` and the files of the tokenizer. This
# program runs offline, so it writes a tiny encoder with random weights to a folder. Such an encoder
# knows no language: it learns from all 400 labels here, and not from 32.
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words += sorted({word for text in train.data for word in text.replace(",", " ").split()})
temporary = tempfile.TemporaryDirectory()
logging.disable_progress_bar()
BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(temporary.name)
size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
torch.manual_seed(0)
config = BertConfig(vocab_size=len(words), intermediate_size=64, **size)
BertModel(config).save_pretrained(temporary.name)

clf = BertClassifier(temporary.name, lr=3e-3, max_epochs=20, random_state=0)
clf.fit(train.data, train.target)
print(f"tiny encoder, 400 labels: {clf.score(test.data, test.target):.3f}")
temporary.cleanup()


# %%
# A net of your own
# -----------------
# Any skorch net will do whose module returns logits: one number for each class, no softmax. This
# one reads frozen embeddings. It starts from random weights, so both stages get more epochs. With
# ``teacher="embeddings"``, a linear classifier on the same numbers labels first.
class Layers(nn.Module):
    """Two layers with dropout."""

    def __init__(self, n_in=384, n_classes=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, n_classes)
        )

    def forward(self, X):
        return self.layers(X)


embedder = SentenceEmbedder()
E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
net = NeuralNetClassifier(
    Layers,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    lr=2e-3,
    batch_size=32,
    verbose=0,
)
epochs = {"pretrain_epochs": 5, "finetune_epochs": 20}
settings = {
    "32 labels alone": {"max_iter": 0},
    "five nets": {"max_iter": 0, "n_teachers": 5},
    "with unlabelled texts": {"step_size": 0.5},
    "taught by embeddings": {"step_size": 1.0, "teacher": "embeddings"},
}
scores = {
    name: [
        SelfPretrainingClassifier(net, random_state=seed, **epochs, **params)
        .fit(E, y)
        .score(E_test, test.target)
        for seed in range(3)
    ]
    for name, params in settings.items()
}
for name, found in scores.items():
    print(f"{name:22} {np.mean(found):.3f}")

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for place, found in enumerate(reversed(scores.values())):
    ax.plot(found, [place] * 3, "o", color="C0", alpha=0.6)
    ax.plot(np.mean(found), place, "|", color="black", markersize=20)
ax.set_yticks(range(len(scores)), list(reversed(scores)))
ax.set(xlabel="accuracy, three seeds and their mean", ylim=(-0.5, len(scores) - 0.5))
plt.show()
