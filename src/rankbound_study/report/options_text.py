"""Training options in words: `learning rate 0.001`, `hidden 100-30`, and those in which two trainings differ."""

from collections.abc import Mapping


def option_text(name: str, value: object) -> str:
    """An option, called as the configuration calls it, and its value."""
    return f"{name.replace('_', ' ')} {_value(value)}"


def differing(options: Mapping[str, object], usual: Mapping[str, object]) -> list[str]:
    """The options that are other ones than usual, in alphabetical order; what only the usual ones have is left out."""
    return [
        option_text(name, value) for name, value in sorted(options.items()) if name not in usual or usual[name] != value
    ]


def _value(value: object) -> str:
    if isinstance(value, list):
        return "-".join(map(_value, value))
    return str(value).removesuffix(".0")
