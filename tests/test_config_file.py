import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septuagint.config import Config
from septuagint.config_file import as_toml, describe, load_config
from septuagint.errors import ConfigError

SMALLEST = """
[data]
folder = "prepared"
source_language = "en"
target_language = "de"
[[data.train]]
source = "a.en"
target = "a.de"
"""


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "run.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def mistakes(path: Path, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_paths_are_relative_to_the_file_and_not_to_the_working_directory(write, tmp_path, monkeypatch):
    path = write(SMALLEST.replace("prepared", "../elsewhere"))
    monkeypatch.chdir("/")
    config = load_config(path)
    assert config.data.folder == tmp_path.parent / "elsewhere"
    assert config.data.train[0].source == tmp_path / "a.en"


def test_paths_of_corpora_begin_at_the_root_where_there_is_one(write, tmp_path):
    path = write(SMALLEST + '[data.valid]\nsource = "/v.en"\ntarget = "https://host/v.de"\n')
    config = load_config(path, ["data.root=../text"])
    assert config.data.train[0].source == tmp_path.parent / "text/a.en"
    assert (config.data.valid[0].source, config.data.valid[0].target) == (Path("/v.en"), "https://host/v.de")
    assert config.data.folder == tmp_path / "prepared"
    assert "data.root" in mistakes(path, ("data.root=7",))
    assert "data.root" in mistakes(path, ("data.root=~nobody-has-this-name/x",))


def test_addresses_are_of_the_web_whatever_the_case_of_their_first_letters(write):
    text = 'source = "HTTPS://host/V.en"\ntarget = " http://host/v.de "\n'
    (valid,) = load_config(write(SMALLEST + "[data.valid]\n" + text)).data.valid
    assert (valid.source, valid.target) == ("https://host/V.en", "http://host/v.de")
    for address in ("ftp://user:SECRET@host/x", "file:///x", "s3://bucket/x"):
        found = mistakes(write(SMALLEST + f'[data.valid]\nsource = "{address}"\ntarget = "a"\n'))
        assert f"{address.partition(':')[0]}: is not fetched; give an http or https address, or the path" in found
        assert "SECRET" not in found


def test_corpora_on_the_web_are_named_like_files(write):
    head = SMALLEST.partition("[[data.train]]")[0]
    forms = [
        'tsv = "https://host/download/europarl%20v7.tsv.gz?x=1"',
        'tsv = "http://host/a.tgz#member=deep/news.de-en.en&sha256=00"',
        'mtdata = "Statmt-europarl-10-deu-eng"',
        'mtdata = "Statmt-europarl-10-deu-eng"',
        'mtdata = "ELRC-legislação-1-eng-por"',
        'sacrebleu = "wmt14/full"',
    ]
    config = load_config(write(head + "".join(f"[[data.train]]\n{form}\n" for form in forms)))
    names = [corpus.name for corpus in config.data.train]
    assert names == [
        "europarl-v7",
        "news.de-en",
        "Statmt-europarl-10-deu-eng",
        "Statmt-europarl-10-deu-eng-2",
        "ELRC-legisla-o-1-eng-por",
        "wmt14-full",
    ]


def test_the_configuration_of_the_design_is_understood(write):
    config = load_config(
        write(
            """
            [data]
            folder = "data/news"
            source_language = "en"
            target_language = "de"
            [[data.train]]
            source = "europarl.en.xz"
            target = "europarl.de.xz"
            weight = 1.0
            [data.valid]
            source = "newstest2013.en.gz"
            target = "newstest2013.de.gz"
            [vocabulary]
            size = 32768
            [model]
            preset = "base"
            [training]
            max_steps = 50000
            tokens_per_step = 32768
            microbatch_tokens = 8192
            validate_every = 2000
            checkpoint_every = 1000
            log_every = 100
            seed = 1
            [cost]
            price_per_hour = 4.8
            currency = "USD"
            """
        )
    )
    assert config.data.train[0].name == "europarl"
    assert config.data.valid[0].name == "newstest2013"
    assert config.cost.price_per_hour == 4.8


def test_all_mistakes_are_reported_together_with_file_and_key(write):
    path = write(
        """
        [data]
        folder = 3
        source_language = "english"
        [[data.train]]
        source = "a.en"
        target = "a.de"
        wieght = 2
        [vocabulary]
        siez = 3
        size = 20
        """
    )
    text = mistakes(path)
    assert str(path) in text
    for expected in (
        "data.folder: must be a path (got 3)",
        'data.source_language: must be a language code such as en, de, zh or pt-BR (got "english")',
        "data.target_language: missing",
        "data.train.0.wieght: unknown key; did you mean 'weight'?",
        "vocabulary.siez: unknown key; did you mean 'size'?",
        "vocabulary.size: input should be greater than or equal to 300 (got 20)",
    ):
        assert expected in text
    assert "6 mistakes" in text


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("training.max_stpes", "did you mean 'max_steps'?"),
        ("vocabulary.max_steps", "'max_steps' belongs to [training]"),
        ("filter.overlap", "did you mean 'filters'?"),
        ("cost.qqq", "known here: price_per_hour, currency"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(write, key, answer):
    assert answer in mistakes(write(SMALLEST), (f"{key}=1",))


@pytest.mark.parametrize(
    ("corpus", "answer"),
    [
        ('source = "a.en"', "`target` is missing"),
        ('tsv = "a.tsv"\njsonl = "a.jsonl"', "give either `source` and `target`, or one of `tsv`, `jsonl`, `mtdata`"),
        ("weight = 1.0", "give either `source` and `target`, or one of `tsv`, `jsonl`, `mtdata`, `sacrebleu`"),
        ('mtdata = "a-b-1-deu-eng"\nsource_field = 1', "belong to `tsv` and `jsonl`"),
        ('mtdata = "../x"', "mtdata"),
        ('sacrebleu = "../x"', "sacrebleu"),
        ('tsv = "a.tsv"\nsource_field = "en"', "column number"),
        ('jsonl = "a.jsonl"\nsource_field = 1', "is a key"),
        ('source = "a"\ntarget = "b"\nsource_field = 1', "belong to `tsv` and `jsonl`"),
        ('tsv = "a.tsv"\nsource_field = 2\ntarget_field = 2', "are the same"),
        ('source = "a"\ntarget = "b"\nweight = -1', "weight"),
        ('source = "a"\ntarget = "b"\nname = "../x"', "name"),
    ],
)
def test_a_corpus_is_one_of_five_forms(write, corpus, answer):
    head = SMALLEST.partition("[[data.train]]")[0]
    assert answer in mistakes(write(f"{head}[[data.train]]\n{corpus}\n"))


def test_a_configuration_names_corpora_to_train_on_or_a_recipe(write):
    head = SMALLEST.partition("[[data.train]]")[0]
    rule = "data.train: must list a corpus, [[data.train]], unless data.recipe names a recipe of mtdata (got [])"
    for empty in ("", "train = []\n"):
        assert mistakes(write(head + empty)).endswith(f"run.toml: {rule}")
        path = write(f'{head}{empty}recipe = "vaswani_etal_2017_ende"\n')
        config = load_config(path)
        assert (config.data.recipe, config.data.train) == ("vaswani_etal_2017_ende", ())
        assert load_config(write(as_toml(describe(config, path)), "resolved.toml")) == config
    assert rule in mistakes(write(head), ("vocabulary.size=1",))  # among other mistakes
    assert "must list" not in mistakes(write(head), ("data.recipe=../x",))


def test_corpora_with_the_same_file_name_are_told_apart_by_their_folders(write):
    head = SMALLEST.partition("[[data.train]]")[0]
    corpora = "".join(
        f'[[data.train]]\nsource = "{folder}/train.en.xz"\ntarget = "{folder}/train.de.xz"\n'
        for folder in ("bible", "news", "news", "sub dir")
    )
    config = load_config(write(head + corpora))
    assert [corpus.name for corpus in config.data.train] == [
        "bible-train",
        "news-train",
        "news-train-2",
        "sub-dir-train",
    ]


def test_two_corpora_cannot_have_one_name(write):
    corpus = '[[data.train]]\nname = "x"\nsource = "a.en"\ntarget = "a.de"\n'
    head = SMALLEST.partition("[[data.train]]")[0]
    assert "two corpora are named 'x'" in mistakes(write(head + corpus + corpus))


def test_a_value_can_be_overridden_and_a_bare_word_is_text(write):
    config = load_config(
        write(SMALLEST),
        ["vocabulary.size=8000", "model.preset=big", "data.train.0.weight=2.5", "filters.overlap=false"],
    )
    assert config.vocabulary.size == 8000
    assert config.model.preset == "big"
    assert config.data.train[0].weight == 2.5
    assert config.filters.overlap is False


@pytest.mark.parametrize(
    ("override", "answer"),
    [
        ("vocabulary.size", "write it as section.key=value"),
        ("=3", "write it as section.key=value"),
        ("data.train.7.weight=1", "there is no entry '7'"),
        ("data.train.weight=1", "name the entry too, such as data.train.0.weight"),
        ("data.folder.x=1", "'folder' is a value, not a section"),
        ("data.train.².weight=1", "there is no entry '²'"),
        ("data.train.0=3", "data.train.0: must be a section"),
        ("vocabulary=3", "vocabulary: must be a section, [vocabulary]"),
        ("data.valid=3", "data.valid: must be a list of tables, [[data.valid]]"),
        ("cost.price_per_hour=inf", "cost.price_per_hour"),
        (f"vocabulary.size={'9' * 5000}", "vocabulary.size"),
        (f"vocabulary.size={'[' * 5000}", "vocabulary.size"),
        ("model.preset=bgi", "model.preset"),
        ("vocabulary.size=many", "--set vocabulary.size"),
    ],
)
def test_a_wrong_override_is_named(write, override, answer):
    assert answer in mistakes(write(SMALLEST), (override,))


def test_every_resolved_value_says_where_it_came_from(write):
    path = write(SMALLEST + "weight = 2\n")
    overrides = ["vocabulary.size=8000"]
    rows = {key: (value, origin) for key, value, origin in describe(load_config(path, overrides), path, overrides)}
    assert rows["vocabulary.size"] == (8000, "--set")
    assert rows["data.train.0.weight"] == (2.0, str(path))
    assert rows["data.train.0.name"] == ("a", "default")
    assert rows["filters.max_pieces"] == (256, "default")


def test_a_table_set_whole_came_from_the_command_line(write):
    path = write(SMALLEST)
    overrides = ['data.valid=[{source="v.en", target="v.de"}]']
    rows = {key: origin for key, _, origin in describe(load_config(path, overrides), path, overrides)}
    assert rows["data.valid.0.source"] == "--set"


def test_a_single_table_can_be_numbered(write):
    path = write(SMALLEST + '[data.valid]\nsource = "v.en"\ntarget = "v.de"\n')
    assert load_config(path, ["data.valid.0.source=w.en"]).data.valid[0].source.name == "w.en"


def test_two_dots_behind_a_link_lead_where_the_system_says(write, tmp_path):
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real/deep")
    config = load_config(write(SMALLEST.replace('"a.en"', '"link/../a.en"').replace('"a.de"', '"real/../a.de"')))
    assert config.data.train[0].source.resolve() == tmp_path / "real/a.en"
    assert config.data.train[0].target == tmp_path / "a.de"


def test_the_printed_configuration_means_the_same_when_it_is_read_again(write):
    valid = '[data.valid]\nsource = "v.en"\ntarget = "v.de"\n[[data.test]]\ntsv = "t ü.tsv"\n'
    path = write(SMALLEST + valid)
    config = load_config(path)
    again = write(as_toml(describe(config, path)), "resolved.toml")
    assert load_config(again) == config


def test_a_number_that_is_missing_from_a_list_is_named(write):
    with pytest.raises(ConfigError, match=r"training\.adam_betas\.1: missing; it must be given"):
        load_config(write(SMALLEST), ["training.adam_betas=[0.9]"])


def test_without_dropout_two_looks_cannot_disagree(write):
    with pytest.raises(ConfigError, match=r"training\.consistency compares what dropout changes"):
        load_config(write(SMALLEST), ["training.consistency=5", "model.dropout=0"])
    assert load_config(write(SMALLEST), ["training.consistency=5"]).training.num_looks == 2


def test_a_configuration_cannot_be_changed(write):
    config = load_config(write(SMALLEST))
    with pytest.raises(ValueError, match="frozen"):
        config.vocabulary.size = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "answer"),
    [(b"[data\n", "not valid TOML"), (b"\xff\xfe[", "not UTF-8"), (b"", "data: missing")],
)
def test_a_file_that_is_not_a_configuration_is_refused(tmp_path, content, answer):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    assert answer in mistakes(path)


def test_the_home_of_nobody_is_refused(write):
    assert "data.folder: must be a path" in mistakes(write(SMALLEST.replace("prepared", "~no-such-user/x")))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert "no such file" in mistakes(tmp_path / "none.toml")
    assert "is a folder" in mistakes(tmp_path)


def test_every_field_has_a_description():
    def sections(schema: dict) -> dict:
        return {"Config": schema, **schema["$defs"]}

    for name, section in sections(Config.model_json_schema()).items():
        if name == "Config":
            continue
        for key, field in section["properties"].items():
            assert field.get("description"), f"{name}.{key} has no docstring"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["data", "filters", "vocabulary", "training", "data.train", "data.valid", "cost"]), values)
def test_no_value_gives_a_traceback(tmp_path_factory, key, value):
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(SMALLEST, encoding="utf-8")
    try:
        text = json.dumps(value)
        load_config(path, [f"{key}={text}", f"{key}.x={text}"])
    except ConfigError:
        pass


@given(st.text(max_size=200))
def test_no_file_content_gives_a_traceback(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
        is_toml = True
    except tomllib.TOMLDecodeError:
        is_toml = False
    with pytest.raises(ConfigError, match="mistakes|missing|unknown" if is_toml else "not valid TOML"):
        load_config(path)
