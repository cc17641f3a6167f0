"""`rankbound fuse`: fuse several runs into one."""

import argparse

from rankbound.commands import topics_of
from rankbound.errors import ConfigError, plain_errors
from rankbound.texts import is_number


def run(arguments: argparse.Namespace) -> None:
    """Fuse and write."""
    from rankbound.fusion import Fusion, tune_fusion
    from rankbound.io.files import read_run, write_run
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
        runs = [read_run(path, format=arguments.format) for path in arguments.run_files]
        how = {"normalise": arguments.normalise}
        if arguments.qrels is None:
            fusion = Fusion(arguments.method, **how, weights=None if vector is None else tuple(vector))
        else:
            how |= {"weights": "grid" if vector == ["grid"] else vector, "topics": topics}
            chosen = metric(*(arguments.metrics or ["nDCG@10"]), names=arguments.names)
            fusion = tune_fusion(runs, arguments.method, arguments.qrels, chosen, **how)
            print(f"{fusion}: {chosen} {fusion.tried[str(fusion)]:.4f}, of {quantity(len(fusion.tried), 'setting')}")
        fused = fusion(runs)
    write_run(arguments.out, fused, tag=arguments.tag)
    print(f"fused {quantity(len(fused.items), 'item')} of {quantity(len(fused.topics), 'topic')}")
    print(f"wrote {arguments.out}")
