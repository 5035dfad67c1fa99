"""Score each iteration of a fit, and read its history.

Run ``python examples/06_score_each_iteration.py``; two to four minutes on two cores. The callable
``on_iteration`` is called after the supervised start and after each iteration. It can score the
nets of that moment on rows of your own. ``history_`` holds sample sizes, losses, the class
distributions before and after inertia, and the seconds of each phase.

Use such scores to watch a fit, or to choose ``max_iter`` on rows that are neither in training nor
in the final test.
"""

from __future__ import annotations

import argparse

from sklearn.metrics import f1_score

from sklearn_spt import Iteration, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts


def main() -> None:
    """Fit with a hook, then print a line for each iteration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=120, help="labelled posts (120)")
    parser.add_argument("--n-unlabeled", type=int, default=400, help="unlabelled posts (400)")
    parser.add_argument("--n-watched", type=int, default=200, help="held-out posts (200)")
    options = parser.parse_args()

    n_train = options.n_labeled + options.n_unlabeled
    train = make_short_texts(n_train, weights=[0.7], n_labeled=options.n_labeled, random_state=0)
    held_out = make_short_texts(options.n_watched, weights=[0.7], random_state=1)
    scores: list[tuple[float, float]] = []

    def score(iteration: Iteration) -> None:
        student, ensemble = (
            f1_score(
                held_out.target, iteration.predict_proba(held_out.data, which=which).argmax(axis=1)
            )
            for which in ("student", "ensemble")
        )
        scores.append((student, ensemble))

    model = SelfPretrainingClassifier(on_iteration=score, random_state=0, verbose=1)
    model.fit(train.data, train.target_partial)

    # confidence: mean probability, at temperature T, of the pseudo-label of a document
    print("\n                            pseudo-label confidence      held-out F1")
    print("iteration  sample  positive  teacher's  after inertia  student  ensemble  seconds")
    for record, (student, ensemble) in zip(model.history_, scores, strict=True):
        line = f"{record['iteration']:9}"
        if record["iteration"] == 0:
            line += f"{'(supervised start)':>43}"
        else:
            positive = record["pseudo_label_counts"][1] / record["sample_size"]
            before, after = (
                sum(group["count"] * group["mean"] for group in record[groups].values())
                / record["sample_size"]
                for groups in ("groups_before", "groups_after")
            )
            line += f"{record['sample_size']:8}{positive:10.0%}{before:11.3f}{after:15.3f}"
        seconds = sum(record["seconds"].values())
        print(f"{line:53}{student:8.3f}{ensemble:10.3f}{seconds:9.1f}")
    print(f"\nThe fit ended because of {model.termination_condition_!r}.")


if __name__ == "__main__":
    main()
