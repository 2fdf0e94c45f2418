"""What can be configured: frozen sections that refuse what they do not know. `config_file` reads them."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit

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
    return _resolve(value, info, "folder")


def _resolve(value: Any, info: ValidationInfo, beginning: str) -> Any:
    if not isinstance(value, (str, Path)) or str(value) == "" or "\0" in str(value):
        raise ValueError("must be a path")
    assert info.context is not None, "configurations are read by config_file, which knows the file's folder"
    try:
        return _fold_parents(info.context[beginning] / Path(value).expanduser())
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


def _path_or_address(value: Any, info: ValidationInfo) -> Any:
    # One letter and a colon begin a path on some systems.
    if not isinstance(value, str) or (found := re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/", value)) is None:
        return _resolve(value, info, "root")
    scheme = found[1].lower()
    if scheme not in ("http", "https"):
        raise ValueError(f"{scheme}: is not fetched; give an http or https address, or the path of a file on this disk")
    return f"{scheme}:/{value[found.end() :].rstrip()}"


def split_address(text: str) -> tuple[str, dict[str, str]]:
    """(`https://host/corpus.tgz`, {"member": "corpus.en"}) of `https://host/corpus.tgz#member=corpus.en`."""
    address, _, fragment = text.partition("#")
    options = [part.partition("=") for part in fragment.split("&") if part]
    return address, {name: unquote(value) for name, _, value in options}


ConfigPath = Annotated[Path, BeforeValidator(_relative_to_file)]
# A path, or as text the address of a file on the web: `data.named_corpora` brings it home.
TextFile = Annotated[Path | str, BeforeValidator(_path_or_address)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]
MtdataName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # letters of any language: `ELRC-legislação-1-eng-por`


class Section(BaseModel):
    """Frozen; unknown keys refused; the docstring under a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class CorpusConfig(Section):
    """Parallel text: two files, one file of tab-separated values, one of JSON lines, or a name that is known elsewhere.

    Files may be compressed, and may be addresses: `https://host/europarl.tgz#member=europarl.en&sha256=…`.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = ""
    """What tables and folders call it; made from the file's name when not given."""
    source: TextFile | None = None
    """Sentences of the source language, one a line. Plain, gz, bz2, xz or zst."""
    target: TextFile | None = None
    """Their translations, line by line."""
    tsv: TextFile | None = None
    """Instead of two files: one file, source and target in two columns with a tab between them."""
    jsonl: TextFile | None = None
    """Instead of two files: one file, one JSON object a line."""
    mtdata: MtdataName | None = None
    """Instead of files: what mtdata calls it, such as `Statmt-europarl-10-deu-eng` (needs the extra `corpora`)."""
    sacrebleu: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] | None = None
    """Instead of files: a test set of sacreBLEU, such as `wmt14/full` (needs the extra `train`)."""
    source_field: str | PositiveInt | None = None
    """Column of a TSV file (counted from 1; default 1) or key of a JSON object (dotted, such as `translation.en`)."""
    target_field: str | PositiveInt | None = None
    """The same for the target (default column 2)."""

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        has_two_files = self.source is not None or self.target is not None
        others = (self.tsv, self.jsonl, self.mtdata, self.sacrebleu)
        if has_two_files + sum(other is not None for other in others) != 1:
            raise ValueError("give either `source` and `target`, or one of `tsv`, `jsonl`, `mtdata`, `sacrebleu`")
        if has_two_files and (self.source is None or self.target is None):
            missing = "target" if self.target is None else "source"
            raise ValueError(f"`{missing}` is missing: parallel text needs two files")
        fields = (self.source_field, self.target_field)
        if self.tsv is None and self.jsonl is None and fields != (None, None):
            raise ValueError("`source_field` and `target_field` belong to `tsv` and `jsonl`")
        if self.tsv is not None and any(field is not None and not isinstance(field, int) for field in fields):
            raise ValueError("a field of a TSV file is a column number, counted from 1")
        if self.jsonl is not None and any(isinstance(field, int) for field in fields):
            raise ValueError("a field of a JSON file is a key, such as 'en' or 'translation.en'")
        if fields[0] is not None and fields[0] == fields[1]:
            raise ValueError("`source_field` and `target_field` are the same")
        return self

    @property
    def files(self) -> dict[str, Path | str]:
        """The files that hold it, by field: source and target, or the one file of both; none where it has a name."""
        fields = {"source": self.source, "target": self.target, "tsv": self.tsv, "jsonl": self.jsonl}
        return {field: file for field, file in fields.items() if file is not None}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The same on this disk: where text is read, everything has been brought home."""
        paths = tuple(Path(file) for file in self.files.values())
        assert paths and all(isinstance(file, Path) for file in self.files.values()), f"{self.name} is not here yet"
        return paths


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
    root: ConfigPath | None = None
    """Where relative paths of corpora begin; the folder of this file when not given."""
    strict: bool = False
    """Refuse text with damaged lines (not UTF-8, wrong columns, bad JSON) instead of dropping and counting them."""
    recipe: MtdataName | None = None
    """Besides the corpora below, those of a recipe of mtdata, such as `vaswani_etal_2017_ende` (extra `corpora`)."""
    train: Annotated[tuple[TrainCorpusConfig, ...], Field(validate_default=True), BeforeValidator(_as_list)] = ()
    """Corpora to train on, any number; none where a recipe has some."""
    valid: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_list)] = ()
    """Text to validate on. Never filtered: every line counts."""
    test: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_list)] = ()
    """Text to test on; it is kept apart from training, and never filtered."""

    @field_validator("train", "valid", "test", mode="after")
    @classmethod
    def _name_corpora(cls, corpora: tuple[AnyCorpus, ...]) -> tuple[AnyCorpus, ...]:
        return with_names(corpora)

    @field_validator("train", mode="after")
    @classmethod
    def _is_something_to_train_on(
        cls, corpora: tuple[TrainCorpusConfig, ...], info: ValidationInfo
    ) -> tuple[TrainCorpusConfig, ...]:
        if not corpora and "recipe" in info.data and info.data["recipe"] is None:  # a wrong one is told by itself
            raise ValueError("must list a corpus, [[data.train]], unless data.recipe names a recipe of mtdata")
        return corpora


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


_VASWANI = {"norm": "layer", "positions": "sinusoidal", "feedforward": "relu"}
_MODERN = {"norm": "rms", "positions": "rotary", "feedforward": "swiglu"}
_SIX_AND_SIX = {"num_encoder_layers": 6, "num_decoder_layers": 6}
_NORMAL = {"width": 512, "num_heads": 8, "dropout": 0.1}
_BIG = {"width": 1024, "num_heads": 16, "dropout": 0.3}
PRESETS: dict[str, dict[str, Any]] = {
    "base": {**_VASWANI, **_SIX_AND_SIX, **_NORMAL, "feedforward_width": 2048},
    "big": {**_VASWANI, **_SIX_AND_SIX, **_BIG, "feedforward_width": 4096},
    # SwiGLU has three matrices where ReLU has two: two thirds of the width, rounded up to whole GPU tiles.
    "modern": {**_MODERN, **_SIX_AND_SIX, **_NORMAL, "feedforward_width": 1408},
    "modern-big": {**_MODERN, **_SIX_AND_SIX, **_BIG, "feedforward_width": 2816},
    "fast": {**_MODERN, **_NORMAL, "num_encoder_layers": 12, "num_decoder_layers": 2, "feedforward_width": 1408},
}


class ModelConfig(Section):
    """The network: a preset, and any of its fields set beside it."""

    preset: Literal["base", "big", "modern", "modern-big", "fast"] = "base"
    """`base` and `big` as published in 2017; `modern` and `modern-big` of the same sizes; `fast` for quick decoding."""
    width: PositiveInt
    """Numbers that stand for one token throughout the network."""
    num_heads: PositiveInt
    """Attention heads; each has width / num_heads numbers."""
    feedforward_width: PositiveInt
    """Numbers in the middle of a feed-forward block."""
    num_encoder_layers: PositiveInt
    """Layers that read the source."""
    num_decoder_layers: PositiveInt
    """Layers that write the target."""
    norm: Literal["layer", "rms"]
    """LayerNorm, with biases in every linear map; or RMSNorm, without."""
    positions: Literal["sinusoidal", "rotary"]
    """How the network knows the order of the tokens: added to the embeddings, or turned into queries and keys."""
    feedforward: Literal["relu", "swiglu"]
    """The feed-forward block."""
    dropout: Annotated[float, Field(ge=0, lt=1)]
    """Share of numbers set to zero in training, after the embeddings and after each block."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        preset = values.get("preset", "base")
        return {**PRESETS.get(preset, PRESETS["base"]), **values} if isinstance(preset, str) else values

    @model_validator(mode="after")
    def _divides_evenly(self) -> Self:
        if self.width % (2 * self.num_heads):
            raise ValueError(
                f"width = {self.width} must be a multiple of twice num_heads = {self.num_heads}: "
                "every head has the same, even number of numbers"
            )
        return self


class TrainingConfig(Section):
    """How long to train, on how much at a time, and what to keep an eye on."""

    max_steps: PositiveInt = 50_000
    """Optimizer updates in the whole run."""
    max_hours: PositiveFloat | None = None
    """Stop after this many hours of training, all attempts together, if that comes first."""
    tokens_per_step: PositiveInt = 32_768
    """Target tokens of the whole world per update; a multiple of microbatch_tokens."""
    microbatch_tokens: PositiveInt = 8192
    """Target budget of one pack; the source budget follows from the text. Decides how much memory is needed."""
    validate_every: PositiveInt = 2000
    """Steps between validations."""
    checkpoint_every: PositiveInt = 1000
    """Steps between checkpoints."""
    log_every: PositiveInt = 100
    """Steps between lines of the log."""
    beam_size: Annotated[int, Field(ge=1, le=32)] = 4
    """Hypotheses that validation follows side by side, as the finished translator will; 1 is quicker."""
    sample_every: PositiveInt = 1000
    """Steps between sample translations."""
    seed: NonNegativeInt = 1
    """Decides the weights at the start, the order of the data and dropout."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon`: the matrices of the layers learn by Muon, which needs fewer steps; the rest by AdamW as before."""
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = "inverse_sqrt"
    """What the learning rate does after its linear warm-up."""
    learning_rate: PositiveFloat | None = None
    """Its peak, at the end of the warm-up; 2 / sqrt(width * warmup_steps) when not given, as in the reference runs."""
    warmup_steps: PositiveInt = 8000
    """Steps until the peak."""
    decay_steps: PositiveInt | None = None
    """For `cosine`: the step at which the learning rate has fallen to a hundredth of its peak."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the probability that is spread over the whole vocabulary."""
    consistency: NonNegativeFloat = 0.0
    """How much two looks at the same text, with different dropout, shall agree (R-Drop), such as 5; 0 for one look."""
    weight_decay: NonNegativeFloat = 0.0
    """How much matrices shrink per step, times the learning rate."""
    adam_betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.98)
    """Memory of the optimizer: of the gradient, and of its square."""
    max_gradient_norm: NonNegativeFloat = 1.0
    """Longer gradients are shortened to this; 0 for never."""
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    """`auto`: bf16 on GPUs that have it, fp16 with a dynamic loss scale on older ones, fp32 on CPUs."""
    compile: Literal["auto", "on", "off"] = "auto"
    """`auto`: on GPUs our own kernels, or torch.compile where there are none; `on`: torch.compile; `off`: neither."""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Translate with an exponential moving average of the weights that forgets this slowly, such as 0.999."""
    average_checkpoints: Annotated[int, Field(ge=0, le=5)] = 5
    """At the end, try the mean of the weights of this many last checkpoints; 0 for not."""
    best_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What decides which checkpoint is the best."""
    patience: PositiveInt | None = None
    """Stop after this many validations in a row without a better one."""
    init_from: ConfigPath | None = None
    """Start from the weights of this run or checkpoint folder instead of random ones."""
    timeout_minutes: PositiveFloat = 5.0
    """With several ranks: give up when one has not been heard of for so long, name it, and leave."""
    mirror: ConfigPath | None = None
    """Copy log, events and best weights here at each checkpoint, for machines that will be cancelled."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        budget, total = self.microbatch_tokens, self.tokens_per_step
        if total % budget:
            near = sorted({max(1, total // budget) * budget, -(-total // budget) * budget})
            raise ValueError(
                f"tokens_per_step = {total} must be a multiple of microbatch_tokens = {budget}, such as "
                f"{' or '.join(map(str, near))}"
            )
        if (self.schedule == "cosine") != (self.decay_steps is not None):
            raise ValueError('`decay_steps` belongs to schedule = "cosine", which needs to know where it ends')
        if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
            raise ValueError(f"decay_steps = {self.decay_steps} must be more than warmup_steps = {self.warmup_steps}")
        return self

    @property
    def num_microbatches(self) -> int:
        """Packs of the whole world per update."""
        return self.tokens_per_step // self.microbatch_tokens

    @property
    def num_looks(self) -> int:
        """How often a step looks at its text."""
        return 2 if self.consistency else 1


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
    model: ModelConfig = ModelConfig.model_validate({})
    training: TrainingConfig = TrainingConfig()
    cost: CostConfig = CostConfig()

    @model_validator(mode="after")
    def _has_something_to_disagree_about(self) -> Self:
        if self.training.consistency and not self.model.dropout:
            raise ValueError(
                "training.consistency compares what dropout changes, and model.dropout = 0 changes nothing"
            )
        return self


def with_names(corpora: tuple[AnyCorpus, ...]) -> tuple[AnyCorpus, ...]:
    """Every corpus with a name of its own: the given one, the file's, or the file's with its folder before it."""
    given = [corpus.name for corpus in corpora if corpus.name]
    for name in given:
        if given.count(name) > 1:
            raise ValueError(f"two corpora are named {name!r}")
    stems = [_stem(corpus) for corpus in corpora]
    named: list[AnyCorpus] = []
    taken = set(given)
    for corpus, stem in zip(corpora, stems, strict=True):
        if corpus.name:
            named.append(corpus)
            continue
        name = stem if stems.count(stem) == 1 or not corpus.files else f"{_folder(corpus)}-{stem}"
        number = 1
        while (unique := name if number == 1 else f"{name}-{number}") in taken:
            number += 1
        taken.add(unique)
        named.append(corpus.model_copy(update={"name": unique}))
    return tuple(named)


def _stem(corpus: CorpusConfig) -> str:
    """`europarl.en.xz` is europarl."""
    if (name := corpus.mtdata or corpus.sacrebleu) is not None:
        return _safe(name)
    name = _first_path(corpus).name
    return _safe(re.sub(r"(\.[A-Za-z]{2,3}(-[A-Za-z]+)?)?(\.(txt|tsv|jsonl?|gz|bz2|xz|zst))*$", "", name))


def _folder(corpus: CorpusConfig) -> str:
    return _safe(_first_path(corpus).absolute().parent.name)


def _first_path(corpus: CorpusConfig) -> Path:
    """Where the first file lies: on this disk, on its host, or in its archive."""
    file = next(iter(corpus.files.values()), "")
    if isinstance(file, Path):
        return file
    address, options = split_address(file)
    return Path(options.get("member", unquote(urlsplit(address).path)))


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "corpus"
