"""The step `download`: get a raw archive and check its content."""

from pathlib import Path

from rankbound_study.commands.convert import read_description
from rankbound_study.data import fetch


def download(source: str, out: Path, mirror: str | None, description: str) -> None:
    """Fetch and check the archive, and state its terms."""
    described, raw = read_description(source, description)
    publisher = fetch.PUBLISHERS.get(raw.name) or fetch.publisher_of(raw, described)
    path = fetch.fetch(publisher, out, mirror)
    print(f"{path}: {raw.title}, {'content as expected' if raw.is_checked else 'whose content has no checksums'}")
    for what, text in {"terms": publisher.terms, "cite": publisher.citation}.items():
        print(f"{what}: {text or 'not stated in the description'}")
    if raw.remark:
        print(f"note: {raw.remark}")
