"""`rankbound pack`: write judged lists as an Arrow file that may be larger than memory."""

import argparse

from rankbound.commands import columns_of, report_columns, without_warnings
from rankbound.errors import plain_errors


def run(arguments: argparse.Namespace) -> None:
    """Pack, and print what was packed."""
    from rankbound.io.files import needs_extra, pack_lists
    from rankbound.texts import quantity

    with needs_extra("data"):
        from tqdm import tqdm

    columns = {**columns_of(arguments), "groups": arguments.groups}
    with plain_errors(), without_warnings(), tqdm(unit="topic", disable=None) as progress:
        packed = pack_lists(
            arguments.lists, arguments.out, **columns, features=arguments.features, on_topics=progress.update
        )
    parts = {"topic": packed.n_topics, "item": packed.n_items, "feature": packed.n_features}
    print(f"packed {', '.join(quantity(number, what) for what, number in parts.items())}")
    report_columns(arguments.lists, packed.feature_names, packed.left_out, packed.doubtful)
    print(f"wrote {arguments.out}")
