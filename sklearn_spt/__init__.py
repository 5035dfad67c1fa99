"""Semi-supervised text classification that feels like scikit-learn."""

from sklearn_spt._callbacks import RightTrapezoidalLR
from sklearn_spt._embedding import SentenceEmbedder
from sklearn_spt._encoding import TokenIdVectorizer
from sklearn_spt._losses import DistillationLoss
from sklearn_spt._net import BertClassifier
from sklearn_spt._normalization import TweetNormalizer
from sklearn_spt._self_pretraining import Iteration, SelfPretrainingClassifier

__version__ = "0.1.0"

__all__ = [
    "BertClassifier",
    "DistillationLoss",
    "Iteration",
    "RightTrapezoidalLR",
    "SelfPretrainingClassifier",
    "SentenceEmbedder",
    "TokenIdVectorizer",
    "TweetNormalizer",
]
