"""Where the time of a training step goes, and how fast its matrix products are.

Run ``python examples/benchmarks/where_time_goes.py`` on a machine that does nothing else. It
records the operations of a fit of `BertClassifier` by torch.profiler, and says which share of their
time was spent in matrix products, at which rate, beside that of one large product; and how many of
the tokens were padding, and how many words of the table were used. Recording costs time, most where
operations are small. A table in Markdown goes to the standard output.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from _options import parser_of
from _rate import matrix_rate, product_sizes
from _record import Record
from _texts import texts_of
from skorch.dataset import Dataset
from torch.profiler import ProfilerActivity, profile

from sklearn_spt import BertClassifier
from sklearn_spt.nets._batching import WIDTH_MULTIPLE, TokenBatches
from sklearn_spt.text._encoding import sequence_lengths
from sklearn_spt.text._pretrained import pad_token_id

#: Parts of a step, by what the names of their operations hold; the first that fits.
PARTS = {
    "matrix products": ("::mm", "::addmm", "::bmm", "::baddbmm", "mkldnn_linear"),
    "optimiser and clipping": ("Optimizer.", "_fused_adam", "_foreach", "linalg_vector_norm"),
    "GELU, softmax, layer norm": ("gelu", "softmax", "layer_norm"),
    "word vectors": ("embedding", "index_select", "index_copy"),
}
REST = "all else (dropout, residuals, copies, ...)"
N_WARM = 64


def main() -> None:
    """Record and print."""
    parser = parser_of(__doc__, "pretrained", "precision", "normalize")
    add = parser.add_argument
    add("--n-texts", type=int, default=256, help="texts in a fit (default: 256)")
    add("--threads", type=int, default=1, help="CPU threads (default: 1)")
    options = parser.parse_args()
    record = Record(options)
    torch.set_num_threads(options.threads)
    data, texts, y = texts_of(options.n_texts, normalize=options.normalize)
    net = BertClassifier(
        options.pretrained,
        max_epochs=1,
        balanced_batches=False,
        head_init="random",
        precision=options.precision,
        device="cpu",
        random_state=0,
    )
    net.fit(texts[:N_WARM], y[:N_WARM])  # not recorded: files are read, threads start
    with profile(activities=[ProfilerActivity.CPU], with_flops=True, acc_events=True) as recorded:
        net.fit(texts, y)
    spent: dict[str, float] = defaultdict(float)
    operations = 0.0
    for event in recorded.key_averages():
        part = next((p for p, names in PARTS.items() if any(n in event.key for n in names)), REST)
        spent[part] += event.self_cpu_time_total / 1e6
        operations += event.flops if part == "matrix products" else 0
    total = sum(spent.values())
    record.add(seconds=spent)
    print("| part of a fit | share of its time |\n| --- | ---: |")
    for part in (*PARTS, REST):
        print(f"| {part} | {spent[part] / total:.1%} |")
    if record.over():
        return
    config = net.module_.encoder.model.config
    ids = net.encode(texts)
    pad_id = pad_token_id(options.pretrained)
    n_tokens = int(sequence_lengths(ids, pad_id).sum())
    sizes = product_sizes(config, net.batch_size, n_tokens / len(y))
    rate = operations / spent["matrix products"]
    alone = matrix_rate(*sizes, net.precision_, "cpu")
    print(
        f"\nMatrix products: {rate / 1e9:.0f} GFLOP/s, one of {' x '.join(map(str, sizes))} alone "
        f"{alone / 1e9:.0f}. Were all else free, training would be "
        f"{total / spent['matrix products']:.2f} times as fast."
    )
    for multiple in (1, WIDTH_MULTIPLE):
        batches = TokenBatches(Dataset(ids), net.batch_size, pad_id=pad_id, width_multiple=multiple)
        share = 1 - n_tokens / sum(x.numel() for x, _ in batches)
        print(f"Padding, widths in multiples of {multiple}: {share:.1%} of all tokens.")
    print(
        f"{len(y)} {data}, {options.pretrained}, {net.precision_}, threads: "
        f"{torch.get_num_threads()}, {total:.1f} s recorded."
    )


if __name__ == "__main__":
    main()
