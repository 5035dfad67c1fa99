"""Make the paper's tables and figures again, with its data sets or a file of your own.

    python run.py run --data earthquake=FOLDER --encoder bert-base-uncased --out results.jsonl
    python run.py run --data posts.csv --methods paper,ablations --vary lam,alpha --out results.jsonl
    python run.py table results.jsonl
    python run.py figure results.jsonl --out figures

The data sets are adr, earthquake and product, each with the folder of its files; see the loaders in
sklearn_spt.datasets. Other names are CSV files with the columns text, label (empty where unknown)
and perhaps keyword. Of two classes, the last one in sorted order is the positive one.

Each line of the file is one result: a data set, a number of labelled texts, a method and a seed.
Results that are there are not computed again, so a run that was stopped goes on where it was.
--jobs N computes N results at a time; --scheduler ADDRESS computes them on a dask cluster, whose
workers need sklearn_spt.

The protocol: released test rows, or --n-test rows of a file, are the same for all seeds. Texts that
repeat a test text are dropped. Each seed draws the labelled texts by class, and the unlabelled ones
from the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import re
import sys
from pathlib import Path
from time import perf_counter

import ablations
import joblib
import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from sklearn_spt import (
    PAPER_SETTINGS,
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    RightTrapezoidalLR,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)
from sklearn_spt.datasets import load_flu_vaccine, load_nepal_earthquake, load_smm4h_adr

LOADERS = {"adr": load_smm4h_adr, "earthquake": load_nepal_earthquake, "product": load_flu_vaccine}
#: The systems of the paper's main table.
SYSTEMS = {
    "Baseline": BertClassifier,
    "Self-training": ThrottledSelfTrainingClassifier,
    "Tri-training+": TriTrainingClassifier,
    "Mutual-learning": MutualLearningClassifier,
    "Spaced-rep": SpacedRepetitionClassifier,
    "Co-Decomp": CoDecompositionClassifier,
    "Self-Pretraining": SelfPretrainingClassifier,
}
ABLATIONS = {
    "without two-stage learning": ablations.WithoutTwoStages,
    "without trapezoidal lr": ablations.WithoutTrapezoidalLR,
    "without iterative distillation": ablations.WithoutDistillation,
    "without inertial transform": SelfPretrainingClassifier,  # with alpha=0
}
#: Other readings of the paper or of its program.
READINGS = {
    "variances as printed": ablations.IndependentVariance,
    "inertia of raw statistics": ablations.RawInertiaState,
    "optimiser kept in stage 2": ablations.KeptOptimizer,
    "half a step first": ablations.HalfFirstSample,
}
#: The defaults of this library in place of the paper's settings.
DEFAULTS = {
    "Baseline (defaults)": BertClassifier,
    "Self-Pretraining (defaults)": SelfPretrainingClassifier,
}
GROUPS = {"paper": SYSTEMS, "ablations": ABLATIONS, "readings": READINGS, "defaults": DEFAULTS}
METHODS = SYSTEMS | ABLATIONS | READINGS | DEFAULTS
#: Parameters that the paper varies: its value, and the others. 0.2 is its step of 2,000 of 10,000.
VARIED = {
    "step_size": (0.2, [0.1, 0.3, 0.4]),
    "temperature": (3, [2, 4, 5, 6]),
    "lam": (0.3, [0.1, 0.2, 0.4, 0.5]),
    "alpha": (0.1, [0.2, 0.3, 0.4, 0.5]),
}
KEY = ["data", "encoder", "n_labeled", "n_unlabeled", "seed", "method", "param"]
SCORES = ["f1", "precision", "recall"]
PAPER = pd.read_csv(Path(__file__).with_name("paper_numbers.csv"), keep_default_na=False)


# -- data ------------------------------------------------------------------------------------------
def normalized(text):
    """Write a tweet as the paper's program does: lower case, "www" for links.

    It also puts blanks around punctuation, but so does BERT's tokenizer.
    """
    text = re.sub(r"(?:https?://|www\.)\S+", " www ", html.unescape(text).lower())
    return " ".join(text.split())


def load(given, n_test):
    """Return the rows to learn from and the test rows; label is a code, -1 where it is unknown."""
    name, _, place = given.partition("=")
    if name in LOADERS:
        bunch = LOADERS[name](place or None)
        columns = {"text": bunch.data, "label": bunch.target, "fold": bunch.fold}
        frame = pd.DataFrame({**columns, "keyword": bunch.get("keyword", "")})
    else:
        frame = pd.read_csv(given, dtype={"text": str})
        frame["label"] = pd.factorize(frame["label"], sort=True)[0]
        frame["fold"] = "train"
        frame["keyword"] = frame["keyword"].fillna("") if "keyword" in frame else ""
    frame["text"] = frame["text"].map(normalized)
    labeled, released = frame["label"] >= 0, frame["fold"] == "test"
    test = frame[released & labeled]
    if test.empty:
        known = frame[labeled]
        test, _ = train_test_split(
            known, train_size=n_test, stratify=known["label"], random_state=0
        )
    rest = frame[~released & ~frame["text"].isin(test["text"])]
    return rest.drop(index=test.index, errors="ignore"), test


def draw(rest, n_labeled, n_unlabeled, seed):
    """Draw the labelled rows of a seed by class, and its unlabelled ones from those that are left.

    The labelled rows do not depend on the number of unlabelled ones.
    """
    known = rest[rest["label"] >= 0]
    labeled, _ = train_test_split(
        known, train_size=n_labeled, stratify=known["label"], random_state=seed
    )
    pool = rest.drop(index=labeled.index)
    return labeled, pool.sample(min(n_unlabeled, len(pool)), random_state=seed).assign(label=-1)


# -- results ---------------------------------------------------------------------------------------
def classifier(method, param, encoder, seed):
    """Return the unfitted classifier of a result, with the paper's settings or the defaults."""
    kind = METHODS[method]
    net = BertClassifier(encoder, random_state=seed)
    if method not in DEFAULTS:
        net.set_params(head_init="random")
    if kind is BertClassifier:
        return net
    params = {}
    if issubclass(kind, SelfPretrainingClassifier) and method not in DEFAULTS:
        params = dict(PAPER_SETTINGS)
        if method == "without inertial transform":
            params["alpha"] = 0.0
        if param:
            name, value = param.split("=")
            params[name] = float(value)
    return kind(net, random_state=seed, **params)


def compute(row, rest, test, score_iterations=False):
    """Fit and score one classifier; return the row with its scores, or with an error."""
    try:
        labeled, unlabeled = draw(rest, row["n_labeled"], row["n_unlabeled"], row["seed"])
        clf = classifier(row["method"], row["param"], row["encoder"], row["seed"])
        used = labeled if isinstance(clf, BertClassifier) else pd.concat([labeled, unlabeled])
        columns = ["text", "keyword"] if row["method"] == "Co-Decomp" else "text"
        iterations = []
        if score_iterations and isinstance(clf, SelfPretrainingClassifier):
            clf.on_iteration = lambda at: iterations.append(
                scores(test["label"], at.predict_proba(test["text"]).argmax(axis=1))["f1"]
            )
        start = perf_counter()
        clf.fit(used[columns], used["label"].to_numpy())
        seconds = perf_counter() - start
        found = scores(test["label"], clf.predict(test[columns])) | {"seconds": seconds}
        return row | found | ({"iterations": iterations} if iterations else {})
    except Exception as error:  # the others go on
        return row | {"error": f"{type(error).__name__}: {error}"}


def scores(y, predicted):
    """Return F1, precision and recall of the positive class of two, or their means over more."""
    average = "binary" if y.nunique() == 2 else "macro"
    found = precision_recall_fscore_support(y, predicted, average=average, zero_division=0.0)
    return dict(zip(("precision", "recall", "f1"), map(float, found[:3]), strict=True))


def wanted(options):
    """Return the keys of all results that the options ask for."""
    methods = []
    for name in options.methods.split(","):
        methods += GROUPS.get(name, [name] if name else [])
    if unknown := set(methods) - set(METHODS):
        raise SystemExit(f"no method {unknown}; there are {', '.join([*GROUPS, *METHODS])}.")
    both = [(method, "") for method in methods]
    for name in filter(None, options.vary.split(",")):
        if ("Self-Pretraining", "") not in both:
            both.append(("Self-Pretraining", ""))
        both += [("Self-Pretraining", f"{name}={value}") for value in VARIED[name][1]]
    return [
        dict(zip(KEY, (data, options.encoder, n, options.n_unlabeled, seed, *one), strict=True))
        for data in options.data
        for seed in options.seeds
        for n in options.n_labeled
        for one in both
    ]


def read(file):
    """Return the results in a file; a line that was cut short is none."""
    rows = []
    for line in Path(file).read_text("utf-8").splitlines() if Path(file).exists() else []:
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return pd.DataFrame(rows, columns=None if rows else KEY)


def append(file, row):
    """Add a line to a file of results, below a line that was cut short if there is one."""
    with open(file, "ab+") as stream:
        if stream.tell():
            stream.seek(-1, 2)
            cut = stream.read(1) != b"\n"
            stream.write(b"\n" * cut)
        stream.write(json.dumps(row).encode() + b"\n")


def run(options):
    """Compute the results that are missing, and say how many could not be computed."""
    parts = {data: load(data, options.n_test) for data in options.data}
    known = read(options.out).reindex(columns=KEY).to_dict("records")
    missing = []
    for row in wanted(options):
        data, rest = row["data"], parts[row["data"]][0]
        if row["method"] == "Co-Decomp" and not rest["keyword"].any():
            raise SystemExit(f"Co-Decomp needs keywords, and {data} has none; name other methods.")
        named = data.partition("=")[0] if data.partition("=")[0] in LOADERS else Path(data).stem
        if (row := row | {"data": named}) not in known:
            missing.append((row, *parts[data], options.score_iterations))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    with on_cluster(options.scheduler):
        tasks = (joblib.delayed(compute)(*task) for task in missing)
        # of one job the results come one by one, too
        many = joblib.Parallel(options.jobs, return_as="generator_unordered")
        for number, row in enumerate(many(tasks), start=1):
            failed += "error" in row
            if "error" not in row:
                append(options.out, row)
            print(f"{number}/{len(missing)} {json.dumps(row)}", flush=True)
    if failed:
        sys.exit(f"{failed} results could not be computed; see the errors above.")


@contextlib.contextmanager
def on_cluster(address):
    """Let joblib compute on the cluster of a dask scheduler, if there is one."""
    if not address:
        yield
        return
    import cloudpickle
    from distributed import Client

    # the workers cannot import the files of this folder
    for name in ("ablations", __name__):
        cloudpickle.register_pickle_by_value(sys.modules[name])
    with Client(address), joblib.parallel_config("dask"):
        yield


# -- tables ----------------------------------------------------------------------------------------
def table(options):
    """Print the tables in Markdown: means over the seeds ± standard deviation."""
    results = pd.concat([read(file) for file in options.files]).fillna({"param": ""})
    setting = ["data", "encoder", "n_labeled", "n_unlabeled"]
    for at, part in results.groupby(setting, sort=False):
        data, encoder, n_labeled, n_unlabeled = at
        print(f"\n## {data}: {n_labeled:,} labelled, {n_unlabeled:,} unlabelled, {encoder}\n")
        of_paper = PAPER[(PAPER["data"] == data) & (PAPER["n_labeled"] == n_labeled)]
        print(beside(part, [(name, "") for name in METHODS if name not in ABLATIONS], of_paper))
        # the paper has the smaller tables for one data set alone
        of_paper = PAPER[(PAPER["data"] == "adr") & (PAPER["n_labeled"] == 500)]
        for title, rows in small_tables().items():
            if any((one.method, one.param) in rows[1:] for one in part.itertuples()):
                print(f"\n{title}; the paper's numbers are for adr, 500 labelled\n")
                print(beside(part, rows, of_paper))


def small_tables():
    """Return the rows of the smaller tables by title; the first one is the paper's method."""
    full = ("Self-Pretraining", "")
    found = {"Ablations": [full, *((name, "") for name in ABLATIONS)]}
    for name, (_, values) in VARIED.items():
        found[f"Values of {name}"] = [full, *((full[0], f"{name}={value}") for value in values)]
    return found


def beside(results, rows, of_paper):
    """Return our scores in Markdown, with the paper's if it has any of these rows."""
    paper = of_paper.set_index(["method", "param"])
    lines = []
    for method, param in rows:
        ours = results[(results["method"] == method) & (results["param"] == param)]
        if ours.empty:
            continue
        name = param or method
        if rows[0][0] == "Self-Pretraining" and not param and "=" in rows[1][1]:
            varied = rows[1][1].split("=")[0]
            name = f"{varied}={VARIED[varied][0]}"
        cells = [f"{ours[s].mean():.3f} ± {ours[s].std():.3f}" for s in SCORES]
        found = (method, param) in paper.index
        cells += [f"{paper.loc[(method, param), s]:.3f}" if found else "" for s in SCORES]
        lines.append([name, *(cell.replace(" ± nan", "") for cell in cells), str(len(ours))])
    heads = ["", "F1", "precision", "recall", "paper: F1", "precision", "recall", "seeds"]
    kept = [c for c in range(len(heads)) if c < 4 or any(line[c] for line in lines)]
    text = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "\n".join(f"| {' | '.join(line[c] for c in kept)} |" for line in text)


# -- figures ---------------------------------------------------------------------------------------
def figure(options):
    """Draw F1 over labels, over the values of parameters and over iterations; the learning rate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from sklearn_spt.inspection import IterationCurveDisplay, LearningCurveDisplay

    def save(name):
        fig = plt.gcf()
        fig.set_size_inches(5.5, 3.8)
        fig.savefig(options.out / f"{name}.png", dpi=150)
        plt.close(fig)

    options.out.mkdir(parents=True, exist_ok=True)
    results = pd.concat([read(file) for file in options.files]).fillna({"param": ""})
    for data, part in results.groupby("data", sort=False):
        plain = part[part["param"] == ""]
        sizes = sorted(plain["n_labeled"].unique())
        by_size = {
            name: grid.loc[:, sizes].dropna().to_numpy()
            for name, one in plain.groupby("method", sort=False)
            if set(sizes) == set((grid := one.pivot_table("f1", "seed", "n_labeled")).columns)
        }
        if len(sizes) > 1 and by_size:
            LearningCurveDisplay(sizes, by_size, "F1").plot()
            save(f"{data}_labels")
        most = part[(part["n_labeled"] == sizes[-1]) & (part["method"] == "Self-Pretraining")]
        for name, (usual, values) in VARIED.items():
            rows = {value: f"{name}={value}" for value in values} | {usual: ""}
            mine = most.groupby("param")["f1"].mean().reindex([rows[v] for v in sorted(rows)])
            of_paper = PAPER.query("data == 'adr' and n_labeled == 500")
            of_paper = of_paper[of_paper["method"] == "Self-Pretraining"].set_index("param")["f1"]
            if mine.notna().sum() > 1:
                ax = plt.subplots(layout="constrained")[1]
                ax.plot(sorted(rows), mine, "o-", label=f"{data}, {sizes[-1]} labelled")
                theirs = of_paper.reindex(mine.index)
                ax.plot(sorted(rows), theirs, "s--", color="0.5", label="paper: adr, 500 labelled")
                ax.set(xlabel=name, ylabel="F1")
                ax.legend()
                save(f"{data}_{name}")
        if "iterations" in most and most["iterations"].notna().any():
            scored = most[most["iterations"].notna()]
            known = {
                "" if p == "" else p: list(one) for p, one in scored.groupby("param")["iterations"]
            }
            IterationCurveDisplay(
                {p or "paper's settings": np.array(s) for p, s in known.items()}, "F1"
            ).plot()
            save(f"{data}_iterations")
    # the paper's last iteration: 10,000 texts once, 500 three times, in batches of 32
    n_C, n_L = 10_000 // 32 + 1, 3 * (500 // 32 + 1)
    schedule, steps = RightTrapezoidalLR(n_C, n_L), np.arange(n_C + n_L)
    ax = plt.subplots(layout="constrained")[1]
    ax.plot(steps, 1 - np.maximum(steps - schedule.n_constant, 0) / schedule.n_decay)
    ax.axvline(n_C, color="0.6", ls="--")
    ax.set(xlabel="step: pseudo-labels, then labels", ylabel="share of the learning rate")
    save("learning_rate")


def main(arguments=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("run", help="compute results").add_argument
    add("--data", nargs="+", required=True, help="adr=FOLDER, earthquake=..., product=..., or CSV")
    add("--methods", default="paper", help=f"names, or {', '.join(GROUPS)}; default: paper")
    add("--vary", default="", help=f"parameters of Self-Pretraining: {', '.join(VARIED)}")
    add("--n-labeled", type=int, nargs="+", default=[300, 500], help="default: 300 500")
    add("--n-unlabeled", type=int, default=10_000, help="at most; default: 10000")
    add("--n-test", type=int, default=2000, help="test rows of a file; default: 2000")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default: 0 1 2")
    add("--encoder", default="sentence-transformers/all-MiniLM-L6-v2", help="default: MiniLM")
    add("--score-iterations", action="store_true", help="score Self-Pretraining in between, too")
    add("--jobs", type=int, help="results at a time; default: 1, on a cluster all workers")
    add("--scheduler", metavar="ADDRESS", help="of a dask cluster")
    add("--out", type=Path, required=True, help="file of the results")
    add = commands.add_parser("table", help="print tables in Markdown").add_argument
    add("files", nargs="+")
    drawing = commands.add_parser("figure", help="draw figures")
    drawing.add_argument("files", nargs="+")
    drawing.add_argument("--out", type=Path, required=True, help="folder")
    options = parser.parse_args(arguments)
    {"run": run, "table": table, "figure": figure}[options.command](options)


if __name__ == "__main__":
    main()
