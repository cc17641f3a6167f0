"""The package's exceptions; a message states what was found, where, what was expected and what to do."""


class RankboundError(Exception):
    """Base class of the package's errors; the command line prints the message without a traceback."""


class ConfigError(RankboundError):
    """A configuration key or value that cannot be used."""


class DataError(RankboundError):
    """A file whose content breaks its contract: malformed line, wrong column, impossible value."""


class SourceError(RankboundError):
    """A raw file that could not be fetched, or whose checksum is not the expected one."""


class ColumnWarning(UserWarning):
    """Columns of a table that are no features unless they are chosen, or features that may give the labels away."""


class OutputError(RankboundError, OSError):
    """A file that could not be written: the disk is full or failed, or permission is missing."""
