"""What can be configured: frozen sections that refuse what they do not know. `config_file` reads them."""

import re
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
    ValidationInfo,
    field_validator,
    model_validator,
)


def _relative_to_file(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, (str, Path)) or str(value) == "" or "\0" in str(value):
        raise ValueError("must be a path")
    assert info.context is not None, "configurations are read by config_file, which knows the file's folder"
    try:
        return _fold_parents(info.context["folder"] / Path(value).expanduser())
    except RuntimeError as error:
        raise ValueError(f"must be a path: {error}") from None  # ~nobody has no home


def _fold_parents(path: Path) -> Path:
    """`configs/../data` reads as `data`, in messages too. Behind a link `..` is the system's to follow."""
    folded = Path()
    for part in path.parts:
        if part == ".." and folded.name not in ("", "..") and not folded.is_symlink():
            folded = folded.parent
        else:
            folded /= part
    return folded


ConfigPath = Annotated[Path, BeforeValidator(_relative_to_file)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]


class Section(BaseModel):
    """Frozen; unknown keys refused; the docstring under a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


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

    max_characters: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """`too_long`: a side has more characters than this. The one filter that cannot be turned off."""
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
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 0.9995
    """Share of the text's characters that get a piece of their own; the others are written as bytes."""
    sample_characters: Annotated[int, Field(ge=1_000_000)] = 30_000_000
    """Train the pieces on about this much text, drawn evenly from all corpora."""
    seed: NonNegativeInt = 1
    """Decides which text is drawn."""
    model: ConfigPath | None = None
    """Use this SentencePiece model instead of training one."""


class ModelConfig(Section):
    """The network."""

    preset: Literal["base", "big", "modern", "modern-big", "fast"] = "base"
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
