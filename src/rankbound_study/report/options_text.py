"""Write training options in words, such as `learning rate 0.001` and `hidden 100-30`."""

from collections.abc import Mapping


def option_text(name: str, value: object) -> str:
    """Return an option's name, as in the configuration, and its value."""
    return f"{name.replace('_', ' ')} {_value(value)}"


def differing(options: Mapping[str, object], usual: Mapping[str, object]) -> list[str]:
    """Return, in alphabetical order, the options that differ from the usual ones or that only `options` has."""
    return [
        option_text(name, value) for name, value in sorted(options.items()) if name not in usual or usual[name] != value
    ]


def _value(value: object) -> str:
    if isinstance(value, list):
        return "-".join(map(_value, value))
    return str(value).removesuffix(".0")
