"""The base of all sections, the kinds of values that their keys take, and sentences about what is wrong with them."""

import ast
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from rankbound.errors import ConfigError
from rankbound.texts import split_text
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import BOUNDINGS, HONEST, PUBLISHED

KeyPath = tuple[str | int, ...]

Problem = tuple[KeyPath, str]
"""A key below a section, and what is wrong with it: the rest of a sentence that begins with the key."""


def problem(text: str) -> PydanticCustomError:
    """Return an error with a text of our own."""
    return PydanticCustomError("problem", "{text}", {"text": text})


class Keys(BaseModel):
    """A section of the configuration; a text is no number, and only keys that say so may be null."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    nullable: ClassVar[tuple[str, ...]] = ()
    """The keys that may be null."""

    def given(self, *without: str) -> dict[str, Any]:
        """Return the keys that are set, as they are written, except some."""
        # It would warn of whole numbers among numbers with a fraction, which are kept as they are written.
        return self.model_dump(exclude_unset=True, exclude=set(without), warnings=False)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems between the keys of this section."""
        yield from ()

    @model_validator(mode="after")
    def _has_no_problems(self) -> Self:
        null = [key for key in sorted(self.model_fields_set) if getattr(self, key) is None and key not in self.nullable]
        problems = [((key,), "is null: give it a value, or remove the key") for key in null] or self.problems()
        details = [InitErrorDetails(type=problem(text), loc=path, input=None) for path, text in problems]
        if details:
            raise ValidationError.from_exception_data(type(self).__name__, details)
        return self


def named(path: KeyPath) -> str:
    """Return a key with all sections around it: `lists.mq2008.thresholds[1]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the configuration"


def listed(names: Sequence[str]) -> str:
    """Return the names, separated by commas."""
    return ", ".join(names)


def nearest(found: Any, allowed: Sequence[str]) -> str:
    """Return `: did you mean nDCG?` if an allowed name is near, else an empty text."""
    by_small_letters = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(str(found).lower(), list(by_small_letters), n=1, cutoff=0.6)
    return f": did you mean {by_small_letters[close[0]]}?" if close else ""


def undefined(name: str, defined: Iterable[str], by: str = "nothing defines") -> str:
    """Return what is wrong with a name that nothing, or none of some sections, defines."""
    return f"is {name!r}, which {by}{nearest(name, list(defined))}"


def shown(value: Any) -> str:
    """Return a value as JSON, or with its type if JSON has no such values, cut if it is long."""
    if not isinstance(value, str | int | float | list | dict | None):
        return f"{value} (a {type(value).__name__})"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def key_text(key: object) -> str:
    """Return a key as YAML writes it, even if it is not text."""
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)


def optional(description: str) -> Any:
    """Return the field of a key that may be absent."""
    return Field(None, description=description)


def within(path: KeyPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a section as those of the section around it."""
    yield from (((*path, *key), text) for key, text in problems)


def allowed(*names: str, pattern: str = "", expected: str = "", longest: int = 80) -> PlainValidator:
    """Return metadata of a text's type: it is one of `names`, or has the `pattern` that `expected` describes.

    Such a text becomes part of a path: the pattern decides about `/` and dots, and `longest` limits its characters
    (file systems take 255 bytes of a file's name in all).
    """
    form, expected = pattern or "|".join(map(re.escape, names)), expected or f"one of {listed(names)}"
    schema: dict[str, Any] = {"pattern": f"^({pattern})$"} if pattern else {"enum": list(names)}

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(form, value):
            raise problem(f"is {shown(value)}: expected {expected}{nearest(value, names)}")
        if len(value) > longest:
            raise problem(f"is {shown(value)}: expected at most {longest} characters, found {len(value)}")
        return value

    return PlainValidator(check, json_schema_input_type=Annotated[str, Field(json_schema_extra=schema)])


def expecting(text: str) -> WrapValidator:
    """Return metadata of a union: what fits none of its types is refused with one sentence, not with one for each."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            raise problem(f"is {shown(value)}: expected {text}") from error

    return WrapValidator(check)


def _without_repeats(values: list[Any]) -> list[Any]:
    if any(value in values[:position] for position, value in enumerate(values)):
        raise problem(f"is {shown(values)}: a value occurs twice")
    return values


METRIC_LOSSES = ("nDCG", "AP", "RR", "nRBP")
"""The names of the metrics that are smooth losses."""


SOURCES = Path(__file__).resolve().parents[3]


@cache
def loss_names() -> tuple[str, ...]:
    """Return the names of the library's losses, without importing torch to find them."""
    return (*defined_names("rankbound.losses"), *METRIC_LOSSES)


def defined_names(package: str) -> list[str]:
    """Return the names of the metrics, losses or bounds that a package defines, read from its sources."""
    files = sorted(SOURCES.joinpath(*package.split(".")).glob("[!_]*.py"))
    return [name for file in files for name in names_given(ast.parse(file.read_bytes(), filename=str(file)))]


def names_given(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that the classes of a module have as their `name`."""
    for statement in (member for node in tree.body if isinstance(node, ast.ClassDef) for member in node.body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if [getattr(target, "id", "") for target in targets] == ["name"] and isinstance(value, ast.Constant):
            yield str(value.value)


def _known_loss(text: str) -> str:
    try:
        name = split_text(text, "loss")[0]
    except ValueError as error:
        raise problem(f"is {text!r}: {str(error).removeprefix(f'loss {text!r}: ')}") from error
    if name not in loss_names():
        raise problem(f"is {text!r}: expected one of {listed(loss_names())}{nearest(name, loss_names())}")
    return text


def _as_written(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    checked = handler(value)
    return value if isinstance(checked, float) else checked


Value = TypeVar("Value")
AsWritten = WrapValidator(_as_written)
"""Of a number with a fraction: an integer stays one, so that options have 4 where a configuration has 4, not 4.0."""
Distinct = Annotated[list[Value], Field(json_schema_extra={"uniqueItems": True}), AfterValidator(_without_repeats)]
Axis = Annotated[Distinct[Value], Field(min_length=1)]

Name = Annotated[
    str,
    allowed(
        pattern="[a-z0-9]+(-[a-z0-9]+)*", expected="a name of small letters, digits and hyphens, such as movielens"
    ),
]
FileName = Annotated[
    str,
    allowed(
        pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*",
        expected="a file's name without folders, of letters, digits, dots, hyphens and underscores, such as MQ2008.zip",
    ),
]
Folder = Annotated[
    str,
    allowed(
        pattern=r"[^\x00-\x1f\x7f{}<>*?\[\]\\]+",
        expected=r"a folder's path without line breaks and without { } < > * ? [ ] \, such as results/seeds",
        longest=1000,
    ),
]
Protocol = Annotated[str, allowed(PUBLISHED, HONEST)]
Loss = Annotated[
    str,
    allowed(
        pattern="[A-Za-z0-9_.,=@()+-]+",
        expected="only letters, digits and . , = @ ( ) + - _ as in LambdaRank(metric=nDCG@10)",
    ),
    AfterValidator(_known_loss),
]
Bounding = Annotated[
    str,
    allowed(
        *BOUNDINGS,
        pattern=rf"{'|'.join(BOUNDINGS)}|"
        r"distribution\((gain=(drawn|sd)|(gain=(drawn|sd),)?tilt=(0*[1-9]\d*(\.\d+)?|0+\.0*[1-9]\d*))\)",
        expected=f"one of {listed(BOUNDINGS)}, or distribution with parameters, such as distribution(tilt=2) or "
        "distribution(gain=sd,tilt=4)",
    ),
]

# Limits that no study needs to exceed: beyond them, a step would never end, or end in an error of its libraries.
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Epochs = Annotated[int, Field(ge=1, le=10_000)]
Width = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
# The columns `seed` and `nsr` of the results have 16 and 8 bits.
TrainingSeed = Annotated[int, Field(ge=0, le=2**15 - 1)]
LARGEST_RATIO = 100
Ratio = Annotated[int, Field(ge=1, le=LARGEST_RATIO)]
Fold = Annotated[int, Field(ge=1, le=100)]
Rate = Annotated[float, Field(gt=0, le=1_000_000), AsWritten]


def _ascending(value: Any) -> Any:
    if isinstance(value, list) and (len(value) < 2 or sorted(set(value)) != value):
        raise problem(f"is {shown(value)}: expected at least two different numbers in ascending order, such as [1, 2]")
    return value


Ascending = AfterValidator(_ascending)
"""Of a list that stands for a number."""
Rates = Annotated[
    Annotated[Rate, Tag("rate")] | Annotated[list[Rate], Tag("grid")],
    Discriminator(lambda value: "grid" if isinstance(value, list) else "rate"),
    Ascending,
]
"""A learning rate, or a grid from which each fold selects one."""
Share = Annotated[float, Field(gt=0, le=1), AsWritten]
ProperShare = Annotated[float, Field(gt=0, lt=1)]
Widths = Annotated[list[Width], Field(max_length=20)]

Section = TypeVar("Section", bound=Keys)


def of_flag(kind: type[Section], text: str, flag: str) -> Section:
    """Return the section that a flag has as JSON; ConfigError names the key of each problem."""
    values = parse_options(text, flag)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = (f"{named(path)} {text}" if path else text for path, text in explained(error, values, kind))
        raise ConfigError("\n  ".join(f"{flag}: {sentence}" for sentence in problems)) from error


_EXPECTED = {
    "model_type": "a section (key: value lines)",
    "model_attributes_type": "a section (key: value lines)",
    "dict_type": "a section (key: value lines)",
    "list_type": "a list, such as [1, 2]",
    "tuple_type": "a list, such as [1, 2]",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "multiple_of": "a multiple of {multiple_of:g}",
    "less_than_equal": "at most {le:,.15g}",
    "too_long": "at most {max_length} values",
    "too_short": "at least one value",
    "string_too_short": "a text that is not empty",
}
"""Kind of error -> what was expected."""


def explained(error: ValidationError, values: Mapping[str, Any], kind: Any) -> Iterator[Problem]:
    """Yield the problems that pydantic found in the values of a section, or of one of several by its name."""
    for details in error.errors(include_url=False):
        wrong, where, found, context = details["type"], details["loc"], details["input"], details.get("ctx", {})
        path = _in_file(where, values)
        match wrong:
            case "missing":
                meaning = _section_at(where[:-1], kind).model_fields[str(where[-1])].description
                yield path, f"lacks {where[-1]}" + (f" ({meaning})" if meaning else "")
            case "extra_forbidden":
                keys = list(_section_at(where[:-1], kind).model_fields)
                owner = f"of {where[-2]}" if len(path) < len(where) else "here"  # of one of several models
                yield path, f"is unknown{nearest(path[-1], keys)} (the keys {owner}: {listed(keys)})"
            case _ if wrong == "invalid_key" or where[-1:] == ("[key]",):
                path = (*_in_file(where[: -1 if wrong == "invalid_key" else -2], values), key_text(found))
                yield path, details["msg"] if isinstance(found, str) else "is not text: write it in quotes"
            case "union_tag_not_found":
                yield path, "lacks name"
            case "union_tag_invalid":
                names, name = re.findall("'(.*?)'", context["expected_tags"]), context["tag"]
                yield (*path, "name"), f"is {shown(name)}: expected one of {listed(names)}{nearest(name, names)}"
            case "problem":
                yield path, details["msg"]
            case _:
                expected = _EXPECTED[wrong].format(**context) if wrong in _EXPECTED else details["msg"]
                # A common mistake: to YAML, 1e-3 without a dot is text.
                if wrong in ("int_type", "float_type") and isinstance(found, str):
                    with suppress(ValueError, OverflowError):
                        number = int(float(found)) if wrong == "int_type" else float(found)
                        expected += f"; YAML reads {found} as text: write {number!r} without quotes"
                yield path, f"is {shown(found)}: expected {expected}"


def _in_file(where: KeyPath, values: Any) -> KeyPath:
    """Return the place of an error without what is no key of the file."""
    path: KeyPath = ()
    for key in where:
        # pydantic names the member of a union, too, and calls a section's name that is wrong "[key]".
        with suppress(LookupError, TypeError):
            path, values = (*path, key), values[key]
    return path


def _section_at(where: KeyPath, kind: Any) -> type[Keys]:
    """Return the model of the section at the place of an error."""
    for key in where:
        if isinstance(kind, type) and issubclass(kind, Keys):
            kind = kind.model_fields[str(key)].annotation
        elif get_origin(kind) in (dict, list):
            kind = get_args(kind)[-1]
        else:
            kind = next(member for member in get_args(kind) if key in get_args(member.model_fields["name"].annotation))
        while NoneType in get_args(kind) or get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
    return cast(type[Keys], kind)
