"""Files of given splits, named one by one or by a pattern with `{fold}`."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankbound.errors import ConfigError
from rankbound.texts import names

FOLD = "{fold}"

_EXPECTED = "expected TRAIN,TEST or TRAIN,VALIDATION,TEST, files with commas between them"


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split."""

    training: Path
    validation: Path | None
    test: Path

    @property
    def name(self) -> str:
        """The names of the files, for messages."""
        return ", ".join(str(path) for path in (self.training, self.validation, self.test) if path is not None)


def split_files(texts: Sequence[str]) -> list[SplitFiles]:
    """Return the splits that flags name, those of a pattern in the order of its folds.

    Raises:
        ConfigError: another number of files, a pattern without files, a fold that is missing, or a file that is.
    """
    return [made for text in texts for made in _splits_of(text)]


def _splits_of(text: str) -> list[SplitFiles]:
    parts = names(text)
    if len(parts) not in (2, 3):
        raise ConfigError(f"--split: found {text}, {_EXPECTED}")
    if FOLD not in text:
        return [_checked(parts, "")]
    pattern = next(part for part in parts if FOLD in part)
    folds = _folds(pattern)
    return [_checked([part.replace(FOLD, fold) for part in parts], f"fold {fold} of ") for fold in folds]


def _folds(pattern: str) -> list[str]:
    """Return what stands for `{fold}` in the files that there are; whole numbers in their order."""
    first, *others = map(re.escape, pattern.split(FOLD))
    text = re.compile(first + "([^/]+)" + r"\1".join(others), re.DOTALL)
    # Unlike that of `Path`, this function takes absolute patterns.
    paths = glob.glob(glob.escape(pattern).replace(FOLD, "*"))  # noqa: PTH207
    folds = sorted({match[1] for path in paths if (match := text.fullmatch(path))}, key=_natural)
    if not folds:
        raise ConfigError(f"--split: there is no file {pattern}, with any name or number for {FOLD}")
    if all(re.fullmatch("[0-9]{1,9}", fold) for fold in folds):
        missing = sorted({*range(int(folds[0]), int(folds[-1]))} - {int(fold) for fold in folds})
        if missing:
            raise ConfigError(
                f"--split: fold {missing[0]} of {pattern} is missing: found the folds {', '.join(folds)}; add its "
                "files, or name the files of every split by a --split of its own"
            )
    return folds


def _natural(fold: str) -> tuple[int, str]:
    """Sort numbers by their value."""
    return (len(fold.lstrip("0")) if fold.isdecimal() else 0, fold)


def _checked(parts: Sequence[str], whose: str) -> SplitFiles:
    paths = [Path(part) for part in parts]
    for path in paths:
        if not path.exists():
            others = ", ".join(str(other) for other in paths if other != path)
            raise ConfigError(f"--split: {whose}{path}: there is no such file; expected it beside {others}")
    return SplitFiles(paths[0], paths[1] if len(paths) > 2 else None, paths[-1])
