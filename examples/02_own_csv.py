"""
Your own CSV
============

From a table in which some cells of the label are empty to a table in which none is.

To run on its own, the program writes a small CSV first. Put your file in its place.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import suggest

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "messages.csv"
bunch = make_short_texts(240, n_labeled=40, random_state=0)
names = dict(enumerate(bunch.target_names))  # -1 has no name: its cell stays empty
topics = pd.Series(bunch.target_partial).map(names)
pd.DataFrame({"text": bunch.data, "topic": topics}).to_csv(path, index=False)

# %%
# Read
# ----
frame = pd.read_csv(path)
print(frame["topic"].value_counts(dropna=False))

# %%
# Fit
# ---
# ``unlabeled_marker=None`` takes every missing value as "no label". Labels are strings; they need
# no encoding.
clf = SelfPretrainingClassifier(unlabeled_marker=None, random_state=0)
clf.fit(frame["text"], frame["topic"])

# %%
# Fill in
# -------
# Predictions of the unlabelled rows, with the probability of each.
unlabeled = frame["topic"].isna()
P = clf.predict_proba(frame.loc[unlabeled, "text"])
found = frame[unlabeled].assign(topic=clf.classes_[P.argmax(axis=1)], probability=P.max(axis=1))
complete = pd.concat([frame[~unlabeled], found]).sort_index()
complete.to_csv(path.with_name("complete.csv"), index=False)
print(complete.head(8).to_string(max_colwidth=48))

# %%
# Which rows to label next?
# -------------------------
# :func:`~sklearn_spt.inspection.suggest` returns rows in doubt that differ from each other.
following = found.iloc[suggest(clf, found["text"], n=5)]
print(following.to_string(max_colwidth=48))

# %%
# Label them in Label Studio
# --------------------------
# Label Studio imports tasks from JSON, with predictions as a first choice. Its labelling interface
# needs ``<Text name="text" value="$text"/>`` and
# ``<Choices name="label" toName="text">`` with a ``<Choice>`` for each topic.


def choice(topic):
    """Return an answer as Label Studio stores it."""
    value = {"choices": [topic]}
    return [{"from_name": "label", "to_name": "text", "type": "choices", "value": value}]


def tasks(rows):
    """Return rows as tasks with predictions."""
    return [
        {
            "data": {"text": row.text, "row": row.Index},
            "predictions": [{"score": row.probability, "result": choice(row.topic)}],
        }
        for row in rows.itertuples()
    ]


def answers(exported):
    """Return the first answer to each task of an export, by row."""
    done = [task for task in exported if task["annotations"] and task["annotations"][0]["result"]]
    return {
        task["data"]["row"]: task["annotations"][0]["result"][0]["value"]["choices"][0]
        for task in done
    }


path.with_name("tasks.json").write_text(json.dumps(tasks(following)), encoding="utf-8")

# %%
# What comes back holds the same tasks with annotations. Here the true topics stand in for a person.
exported = json.loads(path.with_name("tasks.json").read_text(encoding="utf-8"))
for task in exported:
    true = bunch.target_names[bunch.target[task["data"]["row"]]]
    task["annotations"] = [{"result": choice(true)}]
for row, topic in answers(exported).items():
    frame.loc[row, "topic"] = topic
print(f"{frame['topic'].notna().sum()} rows have a label now; fit again.")

# %%
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
groups = [part["probability"] for _, part in found.groupby("topic")]
ax.hist(groups, bins=10, range=(0, 1), stacked=True, label=sorted(found["topic"].unique()))
ax.set(xlabel="probability of the predicted topic", ylabel="messages")
ax.legend()
plt.show()
folder.cleanup()
