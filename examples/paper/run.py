"""Make the paper's tables and figures again, with its data sets or a file of your own.

    python run.py run --data earthquake=FOLDER --encoder bert-base-uncased --out results.jsonl
    python run.py run --data posts.csv --methods ablations --vary lam,alpha --out results.jsonl
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
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    RightTrapezoidalLR,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
    paper_classifier,
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
    """Write a tweet as the paper's program does: lower case, "www" for links, tokens apart."""
    text = re.sub(r"(?:https?://|www\.)\S+", " www ", html.unescape(text).lower())
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


def load(given, n_test):
    """Return the rows to learn from and the test rows; label is a code, -1 where it is unknown."""
    name, _, place = given.partition("=")
    if name in LOADERS:
        bunch = LOADERS[name](place or None)
        columns = {"text": bunch.data, "label": bunch.target, "fold": bunch.fold}
        frame = pd.DataFrame({**columns, "keyword": bunch.get("keyword", "")})
    else:
        frame = pd.read_csv(given, dtype={"text": str}).dropna(subset="text")
        frame["label"] = pd.factorize(frame["label"].mask(frame["label"] == -1), sort=True)[0]
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
    params = {"estimator": net}
    if issubclass(kind, SelfPretrainingClassifier) and method not in DEFAULTS:
        params = paper_classifier(**params).get_params(deep=False)
        if method == "without inertial transform":
            params["alpha"] = 0.0
        if param:
            name, value = param.split("=")
            params[name] = float(value)
    return kind(**params | {"random_state": seed})


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
    main = {method: (method, "") for method in METHODS if method not in ABLATIONS}
    for at, part in results.groupby(setting, sort=False):
        data, encoder, n_labeled, n_unlabeled = at
        print(f"\n## {data}: {n_labeled:,} labelled, {n_unlabeled:,} unlabelled, {encoder}\n")
        print(beside(part, main, PAPER.query("data == @data and n_labeled == @n_labeled")))
        for title, rows in small_tables().items():
            # the paper has the smaller tables for one data set alone
            lines = beside(part, rows, PAPER.query("data == 'adr' and n_labeled == 500"))
            if lines.count("\n") > 2:  # more than the paper's settings
                print(f"\n{title}; the paper's numbers are for adr, 500 labelled\n\n{lines}")


def small_tables():
    """Return the smaller tables by title: name of a row -> method and parameter."""
    full = "Self-Pretraining", ""
    found = {"Ablations": {full[0]: full} | {name: (name, "") for name in ABLATIONS}}
    for name, (usual, others) in VARIED.items():
        values = {value: (full[0], f"{name}={value}") for value in others} | {usual: full}
        found[f"Values of {name}"] = {f"{name}={v}": values[v] for v in sorted(values)}
    return found


def beside(results, rows, of_paper):
    """Return our scores in Markdown, with the paper's if it has any of these rows."""
    paper, lines = of_paper.set_index(["method", "param"]), []
    for name, (method, param) in rows.items():
        ours = results[(results["method"] == method) & (results["param"] == param)]
        if len(ours):
            cells = [f"{ours[s].mean():.3f} ± {ours[s].std():.3f}" for s in SCORES]
            known = (method, param) in paper.index
            cells += [f"{paper.loc[(method, param), s]:.3f}" if known else "" for s in SCORES]
            lines.append([name, *(cell.replace(" ± nan", "") for cell in cells), str(len(ours))])
    heads = ["", "F1", "precision", "recall", "paper: F1", "precision", "recall", "seeds"]
    kept = [c for c in range(len(heads)) if c == 0 or any(line[c] for line in lines)]
    text = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "\n".join(f"| {' | '.join(line[c] for c in kept)} |" for line in text)


# -- figures ---------------------------------------------------------------------------------------
def figure(options):
    """Draw F1 over labels, over the values of parameters and over iterations; the learning rate."""
    import matplotlib

    matplotlib.use("Agg")
    options.out.mkdir(parents=True, exist_ok=True)
    results = pd.concat([read(file) for file in options.files]).fillna({"param": ""})
    figures = {"learning_rate": draw_learning_rate()}
    for data, part in results.groupby("data", sort=False):
        figures[f"{data}_labels"] = draw_labels(part[part["param"] == ""])
        # the smaller figures are about Self-Pretraining with the most labels
        part = part[(part["method"] == "Self-Pretraining")]
        part = part[part["n_labeled"] == part["n_labeled"].max()]
        for name in VARIED:
            figures[f"{data}_{name}"] = draw_values(part, name)
        figures[f"{data}_iterations"] = draw_iterations(part)
    for name, ax in figures.items():
        if ax is not None:
            ax.figure.set(size_inches=(5.5, 3.8), layout_engine="constrained")
            ax.figure.savefig(options.out / f"{name}.png", dpi=150)


def draw_labels(results):
    """Draw the F1 of each method over the number of labelled texts, if there are several."""
    sizes = sorted(results["n_labeled"].unique())
    grids = {
        method: one.pivot_table("f1", "seed", "n_labeled").reindex(columns=sizes).dropna()
        for method, one in results.groupby("method", sort=False)
    }
    mean = pd.DataFrame({method: grid.mean() for method, grid in grids.items() if len(grid)})
    if mean.empty or not sizes[1:]:
        return None
    sd = pd.DataFrame({method: grids[method].std() for method in mean}).fillna(0)
    names = {"xlabel": "Number of labelled rows", "ylabel": "F1, mean ± sd of the seeds"}
    ax = mean.plot(yerr=sd, marker="o", capsize=3, logx=True, grid=True, **names)
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    return ax


def draw_values(results, name):
    """Draw the mean F1 over the values of a parameter, ours and the paper's."""
    usual, others = VARIED[name]
    values = sorted([usual, *others])
    rows = ["" if value == usual else f"{name}={value}" for value in values]
    ours = results.groupby("param")["f1"].mean().reindex(rows)
    if ours.notna().sum() < 2:
        return None
    paper = PAPER.query("data == 'adr' and n_labeled == 500 and method == 'Self-Pretraining'")
    both = {f"{results['n_labeled'].iloc[0]} labelled texts": ours}
    both["paper: adr, 500 labelled texts"] = paper.set_index("param")["f1"].reindex(rows)
    return pd.DataFrame(both).set_axis(values).plot(style=["o-", "s--"], xlabel=name, ylabel="F1")


def draw_iterations(results):
    """Draw F1 after each iteration for each value of a parameter, if it was scored."""
    if "iterations" not in results or results["iterations"].isna().all():
        return None
    groups = results.dropna(subset="iterations").groupby("param", sort=False)["iterations"]
    means = {param or "paper's settings": pd.DataFrame(list(runs)).mean() for param, runs in groups}
    return pd.DataFrame(means).plot(marker="o", xlabel="iteration", ylabel="F1")


def draw_learning_rate():
    """Draw the learning rate of a student in the paper's last iteration."""
    n_C, n_L = -(-10_000 // 32), 3 * -(-500 // 32)  # batches of 32
    schedule, steps = RightTrapezoidalLR(n_C, n_L), np.arange(n_C + n_L)
    rate = 1 - np.maximum(steps - schedule.n_constant, 0) / schedule.n_decay
    names = {"xlabel": "step: pseudo-labels, then labels", "ylabel": "share of the learning rate"}
    ax = pd.DataFrame(rate).plot(legend=False, **names)
    ax.axvline(n_C, color="0.6", ls="--")
    return ax


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
