"""Sources of generated archives: converting them includes the check of their members' checksums."""

from dataclasses import replace
from pathlib import Path

from rankbound_study.data.archives import find_member, list_members
from rankbound_study.data.sources import SOURCES, RawSource, member_checksum


def generated_source(name: str, archive: Path) -> RawSource:
    """Return the source of that name with the checksums of this archive's members instead of the publisher's."""
    source = SOURCES[name]
    members = list_members(archive, source.limits)
    sums = {name: member_checksum(archive, find_member(members, name, archive), source) for name in source.members}
    return replace(source, members=sums)
