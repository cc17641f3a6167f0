"""The step `download`: get a raw archive and check its content."""

from pathlib import Path

from rankbound_study.commands.convert import read_description
from rankbound_study.data import fetch


def download(source: str, out: Path, mirror: str | None, description: str) -> None:
    """Fetch and check the archive, and state its terms."""
    raw = read_description(source, description)
    path = fetch.fetch(raw, out, mirror)
    print(f"{path}: {raw.title}, {'content as expected' if raw.is_checked else 'whose content has no checksums'}")
    for what, text in {"terms": raw.described.terms, "cite": raw.described.citation}.items():
        print(f"{what}: {text or 'not stated in the description'}")
    if raw.described.remark:
        print(f"note: {raw.described.remark}")
