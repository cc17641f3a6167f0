"""The source of an archive that a benchmark generates, so that converting it includes the comparison of its content."""

from dataclasses import replace
from pathlib import Path

from rankbound_study.data.archives import find_member, list_members
from rankbound_study.data.sources import SOURCES, Source, member_checksum


def generated_source(name: str, archive: Path) -> Source:
    """The source of that name, with the checksums of this archive's members in the place of the publisher's."""
    source = SOURCES[name]
    members = list_members(archive, source.limits)
    sums = {
        wanted: member_checksum(archive, find_member(members, wanted, archive), source) for wanted in source.members
    }
    return replace(source, members=sums)
