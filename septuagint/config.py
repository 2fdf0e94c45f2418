"""The configuration: one TOML file, read into frozen sections that refuse what they do not know.

All mistakes of a file are reported together. Paths are relative to the file. `--set a.b=c` overrides a value, and
`describe` prints every resolved value with where it came from.
"""

import difflib
import json
import re
import tomllib
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from septuagint.errors import ConfigError


def _relative_to_file(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, (str, Path)) or str(value) == "" or "\0" in str(value):
        raise ValueError("must be a path")
    assert info.context is not None, "configurations are read by load_config, which knows the file's folder"
    return _fold_parents(info.context["folder"] / Path(value).expanduser())


def _fold_parents(path: Path) -> Path:
    """`configs/../data` reads as `data`. Links are left alone: the user's own names appear in every message."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] not in ("..", path.anchor):
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


ConfigPath = Annotated[Path, BeforeValidator(_relative_to_file)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]


class Section(BaseModel):
    """Frozen; unknown keys refused; the docstring under a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CorpusConfig(Section):
    """Parallel text: two files, or one file of tab-separated values, or one of JSON lines. Compressed or not."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = ""
    """What tables and folders call it; made from the file's name when not given."""
    source: ConfigPath | None = None
    """Sentences of the source language, one a line. Plain, gz, bz2, xz or zst."""
    target: ConfigPath | None = None
    """Their translations, line by line."""
    tsv: ConfigPath | None = None
    """Instead of two files: one file, source and target in two columns with a tab between them."""
    jsonl: ConfigPath | None = None
    """Instead of two files: one file, one JSON object a line."""
    source_field: str | PositiveInt | None = None
    """Column of a TSV file (counted from 1; default 1) or key of a JSON object (dotted, such as `translation.en`)."""
    target_field: str | PositiveInt | None = None
    """The same for the target (default column 2)."""

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        has_two_files = self.source is not None or self.target is not None
        if has_two_files + (self.tsv is not None) + (self.jsonl is not None) != 1:
            raise ValueError("give either `source` and `target`, or `tsv`, or `jsonl`")
        if has_two_files and (self.source is None or self.target is None):
            missing = "target" if self.target is None else "source"
            raise ValueError(f"`{missing}` is missing: parallel text needs two files")
        fields = (self.source_field, self.target_field)
        if has_two_files and fields != (None, None):
            raise ValueError("`source_field` and `target_field` belong to `tsv` and `jsonl`")
        if self.tsv is not None and any(field is not None and not isinstance(field, int) for field in fields):
            raise ValueError("a field of a TSV file is a column number, counted from 1")
        if self.jsonl is not None and any(isinstance(field, int) for field in fields):
            raise ValueError("a field of a JSON file is a key, such as 'en' or 'translation.en'")
        if fields[0] is not None and fields[0] == fields[1]:
            raise ValueError("`source_field` and `target_field` are the same")
        return self

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that hold it: source and target, or the one file of both."""
        return tuple(path for path in (self.source, self.target, self.tsv, self.jsonl) if path is not None)


class TrainCorpusConfig(CorpusConfig):
    """A corpus to train on."""

    weight: NonNegativeFloat = 1.0
    """Expected number of copies of each pair in an epoch."""


AnyCorpus = TypeVar("AnyCorpus", bound=CorpusConfig)


def _as_list(value: Any) -> Any:
    """A single `[data.valid]` table is as good as one `[[data.valid]]`."""
    return [value] if isinstance(value, dict) else value


class DataConfig(Section):
    """The text, and where it is prepared."""

    folder: ConfigPath
    """Where `prepare` writes and `train` reads."""
    source_language: Language
    """Code of the language to translate from, such as `en` or `pt-BR`."""
    target_language: Language
    """Code of the language to translate into."""
    strict: bool = False
    """Refuse text with damaged lines (not UTF-8, wrong columns, bad JSON) instead of dropping and counting them."""
    train: Annotated[tuple[TrainCorpusConfig, ...], Field(min_length=1), BeforeValidator(_as_list)]
    """Corpora to train on, any number."""
    valid: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_list)] = ()
    """Text to validate on. Never filtered: every line counts."""
    test: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_list)] = ()
    """Text to test on; it is kept apart from training, and never filtered."""

    @field_validator("train", "valid", "test", mode="after")
    @classmethod
    def _name_corpora(cls, corpora: tuple[AnyCorpus, ...]) -> tuple[AnyCorpus, ...]:
        return _with_names(corpora)


class FilterConfig(Section):
    """Which pairs are dropped from training text. Zero or false turns a filter off."""

    max_characters: PositiveInt = 1000
    """`too_long`: a side has more characters than this."""
    min_characters: NonNegativeInt = 2
    """`too_short`: a side has fewer characters than this."""
    max_length_ratio: NonNegativeFloat = 2.5
    """`length_ratio`: one side is this many times longer, in characters; see `filters.length_ratio`."""
    copied_source: bool = True
    """`copied_source`: both sides are the same text."""
    max_word_characters: NonNegativeInt = 80
    """`long_word`: a word has more characters than this (scripts without spaces excepted)."""
    min_script_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """`wrong_script`: fewer than this share of a side's letters belong to its language's script."""
    numbers: bool = False
    """`numbers_differ`: the two sides do not have the same numbers in digits."""
    urls: bool = False
    """`urls_differ`: the two sides do not have the same web and mail addresses."""
    language: bool = False
    """`wrong_language`: a side is identified as another language (needs the extra `corpora`)."""
    overlap: bool = True
    """`overlap`: a side also stands in validation or test text, but for case, spaces and punctuation."""
    duplicates: bool = True
    """`duplicate`: the same pair stood in training text before."""
    max_pieces: NonNegativeInt = 256
    """`too_many_pieces`: a side has more pieces than this."""


class VocabularyConfig(Section):
    """The pieces that text is cut into, one vocabulary for both languages."""

    size: Annotated[int, Field(ge=300, le=1_000_000)] = 32_768
    """Number of pieces; lowered with a message when the corpus cannot give as many."""
    type: Literal["unigram", "bpe"] = "unigram"
    """Unigram encodes two to three times faster."""
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9995
    """Share of the text's characters that get a piece of their own; the others are written as bytes."""
    sample_characters: Annotated[int, Field(ge=1_000_000)] = 30_000_000
    """Train the pieces on about this much text, drawn evenly from all corpora."""
    seed: NonNegativeInt = 1
    """Decides which text is drawn."""
    model: ConfigPath | None = None
    """Use this SentencePiece model instead of training one."""


class ModelConfig(Section):
    """The network."""

    preset: str = "base"
    """Name of a preset."""


class TrainingConfig(Section):
    """How long to train, on how much at a time."""

    max_steps: PositiveInt = 50_000
    """Optimizer updates in the whole run."""
    tokens_per_step: PositiveInt = 32_768
    """Target tokens of the whole world per update."""
    microbatch_tokens: PositiveInt = 8192
    """Target budget of one pack."""
    validate_every: PositiveInt = 2000
    """Steps between validations."""
    checkpoint_every: PositiveInt = 1000
    """Steps between checkpoints."""
    log_every: PositiveInt = 100
    """Steps between lines of the log."""
    seed: NonNegativeInt = 1
    """Decides the weights at the start, the order of the data and dropout."""


class CostConfig(Section):
    """What the machines cost."""

    price_per_hour: PositiveFloat | None = None
    """Of all machines together."""
    currency: str = "USD"
    """Shown beside every price."""


class Config(Section):
    """A whole configuration file."""

    data: DataConfig
    filters: FilterConfig = FilterConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    cost: CostConfig = CostConfig()


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a configuration file, with `a.b=c` overrides. Raises one ConfigError that lists every mistake."""
    tree = _read_tree(path)
    sources = _apply_overrides(tree, overrides)
    try:
        return Config.model_validate(tree, context={"folder": path.parent})
    except ValidationError as error:
        # A list whose only entry is wrong also counts as empty: that follows from the entry's own mistake.
        errors = [details for details in error.errors() if details["type"] != "too_short" or not details["input"]]
        problems = [_problem(dict(details), tree, sources) for details in errors]
        raise ConfigError(f"{path}: " + _listed(problems)) from None


def describe(config: Config, path: Path, overrides: Sequence[str] = ()) -> list[tuple[str, Any, str]]:
    """(dotted key, value, where it came from) of every resolved value, in the order of the file format."""
    tree = _read_tree(path)
    given = {key for key, _ in _leaves(tree)}
    sources = _apply_overrides(tree, overrides)
    rows = []
    for key, value in _leaves(config.model_dump()):
        # `data.valid` may be written as one table; resolved, it is a list with one.
        keys = {key, re.sub(r"^data\.(train|valid|test)\.0\.", r"data.\1.", key)}
        origin = "--set" if keys & sources else str(path) if keys & given else "default"
        rows.append((key, str(value.absolute()) if isinstance(value, Path) else value, origin))
    return rows


def as_toml(rows: list[tuple[str, Any, str]]) -> str:
    """The rows of `describe` as a TOML file that means the same, each value's origin in a comment."""
    lines: list[str] = []
    section = ""
    for key, value, origin in rows:
        if value is None or value == ():
            continue  # TOML has no null: what is not set is left out, as is an empty list of tables
        table, _, name = key.rpartition(".")
        header = re.sub(r"^(.*)\.\d+$", r"[[\1]]", table) if re.search(r"\.\d+$", table) else f"[{table}]"
        if table != section:
            lines += ["", header] if lines else [header]
            section = table
        # json writes strings, numbers, booleans and lists of them just as TOML does
        lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}  # {origin}")
    return "\n".join(lines) + "\n"


def _read_tree(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; give a configuration file (.toml)") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}); a configuration is a TOML text file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _apply_overrides(tree: dict[str, Any], overrides: Sequence[str]) -> set[str]:
    """Writes `a.b=c` into the tree; the dotted keys that were set."""
    problems = []
    keys = set()
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not key or not all(key.split(".")):
            problems.append(f"--set {override}: write it as section.key=value")
            continue
        problem = _set_value(tree, key, _parse_value(text.strip()))
        if problem:
            problems.append(f"--set {override}: {problem}")
        keys.add(key)
    if problems:
        raise ConfigError(_listed(problems))
    return keys


def _set_value(tree: dict[str, Any], key: str, value: Any) -> str | None:
    """What is wrong, or None when the value was written."""
    *parents, last = key.split(".")
    place: Any = tree
    for part in parents:
        if isinstance(place, list):
            if not part.isdigit() or int(part) >= len(place):
                return f"there is no entry {part!r}; entries are numbered 0 to {len(place) - 1}"
            place = place[int(part)]
        else:
            place = place.setdefault(part, {})
        if not isinstance(place, (dict, list)):
            return f"{part!r} is a value, not a section"
    if isinstance(place, list):
        return f"name the entry too, such as {'.'.join(parents)}.0.{last}"
    place[last] = value
    return None


def _parse_value(text: str) -> Any:
    """As TOML reads it; a bare word is text, so that `--set model.preset=big` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _listed(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} mistakes\n" + "\n".join(f"  {problem}" for problem in problems)


def _problem(error: dict[str, Any], tree: dict[str, Any], sources: set[str]) -> str:
    """One line for one mistake: the key, the rule, the value and, for an unknown key, the nearest known one."""
    location = _without_list_of_one(error["loc"], tree)
    key = ".".join(str(part) for part in location) or "file"
    where = f"--set {key}" if key in sources else key
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_suggestion(location)}"
    if error["type"] in ("missing", "too_short"):
        return f"{where}: missing; it must be given"
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if "source_language" in key or "target_language" in key:
        message = "must be a language code such as en, de, zh or pt-BR"
    if error["type"] == "value_error" and isinstance(error["input"], dict):
        return f"{where}: {message}"
    return f"{where}: {message} (got {_shortened(error['input'])})"


def _without_list_of_one(location: tuple[Any, ...], tree: dict[str, Any]) -> tuple[Any, ...]:
    """The location as the user wrote it: `_as_list` put single tables into lists."""
    kept: list[Any] = []
    place: Any = tree
    for part in location:
        if isinstance(part, int) and isinstance(place, dict):
            continue
        kept.append(part)
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int):
            place = place[part]
    return tuple(kept)


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _suggestion(location: tuple[Any, ...]) -> str:
    """`; did you mean 'max_steps'?`, from the same section first, then from the others."""
    *parents, name = location
    section: type[Section] = Config
    for part in parents:
        if isinstance(part, str):
            section = _sections(section)[part]
    near = difflib.get_close_matches(str(name), list(section.model_fields), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    elsewhere = [key for key in _all_keys(Config) if key.rpartition(".")[2] == name]
    if elsewhere:
        return f"; {name!r} belongs to [{elsewhere[0].rpartition('.')[0]}]"
    return f"; known here: {', '.join(section.model_fields)}"


def _sections(section: type[Section]) -> dict[str, type[Section]]:
    """The sections inside a section, also those inside a list."""
    found = {}
    for name, field in section.model_fields.items():
        candidates = [field.annotation, *typing.get_args(field.annotation)]
        for candidate in candidates:
            if isinstance(candidate, type) and issubclass(candidate, Section):
                found[name] = candidate
    return found


def _all_keys(section: type[Section], prefix: str = "") -> Iterator[str]:
    inner = _sections(section)
    for name in section.model_fields:
        if name in inner:
            yield from _all_keys(inner[name], f"{prefix}{name}.")
        else:
            yield prefix + name


def _leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every value that is not itself a section or a list of sections."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in items:
        key = f"{prefix}{name}"
        if isinstance(value, dict) or (isinstance(value, (list, tuple)) and any(isinstance(v, dict) for v in value)):
            yield from _leaves(value, key + ".")
        else:
            yield key, value


def _with_names(corpora: tuple[AnyCorpus, ...]) -> tuple[AnyCorpus, ...]:
    """Every corpus with a name of its own: the given one, the file's, or the file's with its folder before it."""
    given = [corpus.name for corpus in corpora if corpus.name]
    for name in given:
        if given.count(name) > 1:
            raise ValueError(f"two corpora are named {name!r}")
    stems = [_stem(corpus.paths[0]) for corpus in corpora]
    named: list[AnyCorpus] = []
    taken = set(given)
    for corpus, stem in zip(corpora, stems, strict=True):
        if corpus.name:
            named.append(corpus)
            continue
        name = stem if stems.count(stem) == 1 else f"{_safe(corpus.paths[0].absolute().parent.name)}-{stem}"
        number = 1
        while (unique := name if number == 1 else f"{name}-{number}") in taken:
            number += 1
        taken.add(unique)
        named.append(corpus.model_copy(update={"name": unique}))
    return tuple(named)


def _stem(path: Path) -> str:
    """`europarl.en.xz` is europarl."""
    return _safe(re.sub(r"(\.[A-Za-z]{2,3}(-[A-Za-z]+)?)?(\.(txt|tsv|jsonl?|gz|bz2|xz|zst))*$", "", path.name))


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "corpus"
