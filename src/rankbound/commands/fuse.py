"""`rankbound fuse`: fuse several runs into one."""

import argparse
from pathlib import Path

from rankbound.commands import Source, add_evaluation_flags, topics_of
from rankbound.errors import ConfigError, plain_errors
from rankbound.texts import is_number, names

SUMMARY = "Fuse runs of several systems into one, by their ranks or scores; tuned on judged topics if you like"
EXAMPLES = """\
  rankbound fuse bm25.txt dense.txt --out fused.txt
  rankbound fuse bm25.txt dense.txt --out fused.txt --method 'rrf(k=20)'
  rankbound fuse bm25.txt dense.txt --out fused.txt --method wsum --weights 0.3,0.7 --normalise zmuv
  rankbound fuse bm25.txt dense.txt --out fused.txt --method wsum --qrels qrels.txt -m nDCG@10 --topics @training.txt

Methods of scores: combsum, combmnz, combanz, combmax, combmin, combmed, combgmnz(gamma=0.5), wsum, wmnz, mixed. Methods
of ranks: rrf, isr, log_isr, logn_isr, rbc(phi=0.8), borda, condorcet. Trained on judged topics: bayes, map, posfuse,
slidefuse, probfuse, segfuse. With --qrels, parameters and weights that are not given are chosen by the metric on these
topics; evaluate the result on others. Tied items of a run share the mean of their ranks' terms."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_files", type=Source, nargs="+", metavar="RUN", help="TREC run, .json, .csv or .parquet")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the fused run")
    parser.add_argument("--method", default="rrf", help="the method, with parameters in parentheses (default: rrf)")
    parser.add_argument("--normalise", metavar="HOW", help="min-max (default), max, sum, zmuv, rank, borda or none")
    parser.add_argument("--weights", type=names, metavar="NUMBERS", help="one per RUN, as in 0.3,0.7; or grid, to tune")
    parser.add_argument("--qrels", type=Source, metavar="QRELS", help="judgements to tune or train the method on")
    parser.add_argument("--tag", default="rankbound", metavar="NAME", help="the run's name (default: rankbound)")
    add_evaluation_flags(parser)


def run(arguments: argparse.Namespace) -> None:
    """Fuse and write."""
    from rankbound.fusion import Fusion, tune_fusion
    from rankbound.io.files import write_run
    from rankbound.metrics import metric
    from rankbound.texts import quantity

    weights, topics, several = arguments.weights, topics_of(arguments), len(arguments.metrics)
    if weights is not None and weights != ["grid"] and not all(map(is_number, weights)):
        raise ConfigError(f"--weights: found {','.join(weights)}, expected numbers, as in 0.3,0.7, or grid")
    if arguments.qrels is None and (weights == ["grid"] or several or topics is not None):
        raise ConfigError("--qrels: found none, expected judgements, on which -m, --topics and --weights grid tune")
    if several > 1:
        raise ConfigError(f"-m: found {', '.join(arguments.metrics)}, expected the one metric to tune by")
    vector = weights if weights is None or weights == ["grid"] else list(map(float, weights))
    with plain_errors():
        how = {"normalise": arguments.normalise}
        if arguments.qrels is None:
            fusion = Fusion(arguments.method, **how, weights=None if vector is None else tuple(vector))
        else:
            how |= {"weights": "grid" if vector == ["grid"] else vector, "topics": topics, "format": arguments.format}
            chosen = metric(*(arguments.metrics or ["nDCG@10"]), names=arguments.names)
            fusion = tune_fusion(arguments.run_files, arguments.method, arguments.qrels, chosen, **how)
            if fusion.tried:
                print(
                    f"{fusion}: {chosen} {fusion.tried[str(fusion)]:.4f}, of {quantity(len(fusion.tried), 'setting')}"
                )
        fused = fusion(arguments.run_files, format=arguments.format)
    write_run(arguments.out, fused, tag=arguments.tag)
    print(f"fused {quantity(len(fused.items), 'item')} of {quantity(len(fused.topics), 'topic')}")
    print(f"wrote {arguments.out}")
