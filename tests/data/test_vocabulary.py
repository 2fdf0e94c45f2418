"""The vocabulary gives back every text, and says so where it cannot be as it was asked for."""

import contextlib
import io
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.config import VocabularyConfig
from septuagint.data.normaliser import normalise
from septuagint.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary, train_vocabulary
from septuagint.errors import DataError
from tests.data.conftest import invented_text


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    sources, targets = invented_text(100)
    words = Counter(word for line in sources + targets for word in line.split())
    trained = train_vocabulary(words, VocabularyConfig(size=400, type=request.param))
    assert Vocabulary(trained.model).size == 400 and trained.message == ""
    return Vocabulary(trained.model)


TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=20),
    st.lists(
        st.sampled_from("the house <s> </s> <unk> <pad> <0x41> <0x0A> \ufffd ü 日本 👩‍💻 \\ Fluss".split()), max_size=6
    ).map(" ".join),
).map(normalise)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=TEXT)
def test_any_normalised_text_comes_back(vocabulary, line):
    ids, _ = vocabulary.encode([line])
    assert vocabulary.decode(ids) == line


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(TEXT, max_size=6))
def test_every_line_is_closed_by_eos_and_nothing_is_unknown(vocabulary, lines):
    ids, lengths = vocabulary.encode(lines)
    assert len(lengths) == len(lines) and lengths.sum() == len(ids)
    assert (ids[np.cumsum(lengths) - 1] == EOS).all() if lines else len(ids) == 0
    assert np.count_nonzero(ids == EOS) == len(lines)
    assert not np.isin(ids, [BOS, PAD, UNK]).any()
    assert not len(ids) or ids.max() < vocabulary.size


def test_special_ids_come_first(vocabulary):
    assert (BOS, PAD, EOS, UNK) == (0, 1, 2, 3)
    assert vocabulary.decode([BOS, PAD, EOS]) == ""
    assert vocabulary.id_type == np.dtype("<u2")


def test_the_same_words_give_the_same_model_wherever_it_is_made(tmp_path):
    words = Counter({"house": 3, "mouse": 2, "louse": 1})
    wanted = VocabularyConfig(size=300)
    before = Path.cwd()
    assert train_vocabulary(words, wanted).model == train_vocabulary(words, wanted, tmp_path).model
    assert list(tmp_path.iterdir()) == []
    assert Path.cwd() == before


def test_counted_words_give_as_good_a_vocabulary_as_sentences():
    """In text that is cut into tokens, too, where the most frequent words have one letter and begin no other."""
    sentences = [f"{line} , i ' a {line} ." for side in invented_text(300) for line in side]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=written,
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    words = Counter(word for line in sentences for word in line.split())
    ours = Vocabulary(train_vocabulary(words, VocabularyConfig(size=420)).model)
    assert ours.encode_pieces([". , i ' a"]) == [["▁.", "▁,", "▁i", "▁'", "▁a"]]
    num_theirs = sum(map(len, theirs.encode(sentences)))
    assert ours.encode(sentences)[1].sum() - len(sentences) <= 1.01 * num_theirs


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_size_that_the_text_cannot_give_is_lowered_with_a_message(kind):
    trained = train_vocabulary({"house": 3, "mouse": 2, "日本語": 1}, VocabularyConfig(size=32_768, type=kind))
    size = Vocabulary(trained.model).size
    assert size < 32_768
    assert trained.message == f"vocabulary lowered to {size:,} pieces: the text cannot give 32,768"


@settings(max_examples=25, deadline=None)
@given(
    words=st.dictionaries(st.text("abcé日本語.", min_size=1, max_size=6), st.integers(1, 9), min_size=1, max_size=12),
    kind=st.sampled_from(["unigram", "bpe"]),
)
def test_however_little_text_there_is_it_gives_a_vocabulary(words, kind):
    trained = train_vocabulary(words, VocabularyConfig(size=400, type=kind))
    vocabulary = Vocabulary(trained.model)
    for word in words:
        assert vocabulary.decode(vocabulary.encode([word])[0]) == word


def test_a_size_too_small_for_the_characters_is_refused_with_the_cure():
    characters = {chr(0x4E00 + number): 1 for number in range(500)}
    with pytest.raises(DataError, match=r"vocabulary.size = 300 is too small: .* take 7\d\d; raise it, or lower"):
        train_vocabulary(characters, VocabularyConfig(size=300, character_coverage=1.0))


class TestGivenModels:
    def model(self, **options: object) -> bytes:
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the house is old", "the river is wide"] * 5),
            model_writer=written,
            vocab_size=30,
            hard_vocab_limit=False,
            minloglevel=2,
            **options,
        )
        return written.getvalue()

    def test_a_model_with_other_special_ids_is_refused_with_the_cure(self, tmp_path):
        (tmp_path / "v.model").write_bytes(self.model())
        with pytest.raises(DataError, match=r"v\.model.*bos=1 pad=-1 eos=2 unk=0, but must be bos=0 pad=1 eos=2 unk=3"):
            Vocabulary.load(tmp_path / "v.model")

    def test_a_model_with_the_right_special_ids_is_taken(self):
        given = Vocabulary(self.model(bos_id=BOS, pad_id=PAD, eos_id=EOS, unk_id=UNK))
        assert given.decode(given.encode(["the house"])[0]) == "the house"

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 100])
    def test_what_is_not_a_model_is_refused(self, tmp_path, content):
        (tmp_path / "v.model").write_bytes(content)
        with pytest.raises(DataError, match=r"v\.model: not a SentencePiece model"):
            Vocabulary.load(tmp_path / "v.model")

    def test_a_missing_model_is_named(self):
        with pytest.raises(DataError, match=r"nowhere\.model: the vocabulary cannot be read: No such file"):
            Vocabulary.load(Path("nowhere.model"))

    def test_a_cut_model_is_refused_unless_the_rest_is_a_model_too(self):
        model = self.model(bos_id=BOS, pad_id=PAD, eos_id=EOS, unk_id=UNK)
        for keep in range(0, len(model), 31):
            with contextlib.suppress(DataError):
                assert Vocabulary(model[:keep]).size > UNK


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_spaces_come_back_even_where_the_text_has_hardly_any(kind):
    """A low coverage leaves rare characters to their bytes; the sign for a space must not be one of them."""
    generator = random.Random(1)
    words = {"".join(chr(0x4E00 + generator.randrange(300)) for _ in range(400)): 1 for _ in range(50)}
    settings = VocabularyConfig(size=600, type=kind, character_coverage=0.98)
    vocabulary = Vocabulary(train_vocabulary(words, settings).model)
    assert vocabulary.decode(vocabulary.encode(["b 丰丯 m²"])[0]) == "b 丰丯 m²"


def test_text_that_gives_no_pieces_is_refused():
    with pytest.raises(DataError, match="cannot make a vocabulary"):
        train_vocabulary({"\u2585": 1}, VocabularyConfig(size=400))
