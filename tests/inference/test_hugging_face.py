"""The folder for `transformers` says what we say: the same ids, text, numbers and translations."""

import functools
import json
import unicodedata
from collections import Counter
from itertools import islice
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import tokenizers
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.config import ModelConfig, VocabularyConfig
from septuagint.data.demo.corpus import generate_pairs
from septuagint.data.normaliser import INVISIBLE, normalise
from septuagint.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary, train_vocabulary
from septuagint.errors import ConfigError, DataError, ParityError
from septuagint.inference.hugging_face import check_is_m2m100, write_hugging_face
from septuagint.inference.parity import check_hugging_face
from septuagint.model.attention import make_layout
from septuagint.model.transformer import Transformer
from tests.data.conftest import invented_text
from tests.data.test_normaliser import TRICKY
from tests.model.conftest import SMALL, pack, random_pairs

# Not random: of two cuts with the same score both sides may rightly take another, and some day such a line is drawn.
MODEST = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUM_STEPS = 20
LINES = [
    "",
    "   ",
    "\t\n\r",
    " leading and trailing ",
    "two  spaces,\ta tab,\u00a0no break\u3000and wide",
    "m² ﬁ ½ 日本 ☃ 👩‍👩‍👧",
    "a\x00b\x07c",
    "Zu\u00adsam\u00admen \ufeff\u200b\u202eabc",
    "e\u0301 a\u0323\u0302 q\u0307\u0323 \u212b",
    "e\u200d\u0301 a\u200cb می‌خواهم",
    "a\u034fb",  # nothing unprintable: `normalise` leaves it
    "a\u034fb\u1160\tc",  # here it does not
    "\u2581a\u2581\u2581b",
    "</s> <pad> <unk> <s>",
    "</s></s>x<s>y</s",
    "a</s>",
    "<0x41> <0x41><0x0A> <0xFF <0xfg>",
    "<</s>> <0x<0x41>>",
    "so " + "very" * 500 + " long",
    "日本" * 300,
    "\U0010ffff \ue000 \ufffd",
]


@functools.cache
def vocabulary_of(kind: str) -> bytes:
    """Of the demo's words and some invented ones."""
    demo = [text for pair in islice(generate_pairs(1), 300) for text in pair]
    sources, targets = invented_text(100)
    words = Counter(word for line in demo + sources + targets for word in line.split())
    return train_vocabulary(words, VocabularyConfig(size=600, type=kind)).model


@functools.cache
def newer_characters() -> str:
    """Marks and composed letters that the Unicode of `tokenizers` does not have yet."""
    composed, decomposed = tokenizers.normalizers.NFC(), tokenizers.normalizers.NFD()

    def is_known(character: str) -> bool:
        if unicodedata.decomposition(character):
            return decomposed.normalize_str(character) == unicodedata.normalize("NFD", character)
        # U+0345 comes last of all marks: a known one moves to its front.
        text = "\u0345" + character
        return composed.normalize_str(text) == unicodedata.normalize("NFC", text)

    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    marks = (c for c in characters if unicodedata.combining(c) or unicodedata.decomposition(c))
    return "".join(c for c in marks if not is_known(c))


def any_text() -> st.SearchStrategy[str]:
    # Characters that are printable to Python but invisible have to be judged with the same table of what is printable:
    # those of TRICKY are old enough.
    printable = "".join(c for c in map(chr, range(0x2000)) if c.isprintable() and INVISIBLE.match(c))
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=newer_characters() + printable)
    words = "the dog <s> </s> <unk> <pad> <0x41> <0x0A> < </ s> \ufffd ü 日本 👩‍💻 \u2581 \\".split(" ")
    return st.one_of(
        st.text(characters, max_size=20),
        st.text(st.sampled_from(TRICKY), max_size=12),
        st.lists(st.sampled_from(words), max_size=6).map(" ".join),
        st.lists(st.sampled_from(words), max_size=6).map("".join),
    )


def small_config(**fields: object) -> ModelConfig:
    return ModelConfig.model_validate({"preset": "base", **SMALL, **fields})


def restless_model(vocabulary_size: int) -> Transformer:
    """No weight is at its start; what it says changes all the time, and ends here and there."""
    torch.manual_seed(12)
    model = Transformer(small_config(), vocabulary_size).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
            elif not name.startswith("embeddings"):
                parameter *= 3
        model.embeddings.weight[EOS] *= 2
    return model


def write(folder: Path, vocabulary: bytes, *, beam_size: int = 1) -> Transformer:
    folder.mkdir()
    model = restless_model(Vocabulary(vocabulary).size)
    write_hugging_face(
        folder,
        weights=model.state_dict(),
        model=model.config,
        vocabulary=vocabulary,
        beam_size=beam_size,
        length_penalty=0.8,
        max_length=NUM_STEPS,
    )
    return model


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Our vocabulary, and the tokenizer that was made of it."""
    folder = tmp_path_factory.mktemp("hugging_face") / request.param
    write(folder, vocabulary_of(request.param))
    return Vocabulary(vocabulary_of(request.param)), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """Our model, and the folder that it was written to."""
    folder = tmp_path_factory.mktemp("hugging_face") / "model"
    return write(folder, vocabulary_of("unigram"), beam_size=4), folder


def sources() -> list[np.ndarray]:
    # None with EOS alone: CTranslate2 does not translate what is empty.
    return [source for source, _ in random_pairs([(3, 1), (12, 1), (2, 1), (7, 1), (4, 1), (9, 1), (30, 1)])]


@torch.no_grad()
def translate_plainly(model: Transformer) -> list[list[int]]:
    """The likeliest next piece, again and again; the whole target is read anew for each. EOS does not come first."""
    targets: list[list[int]] = [[] for _ in sources()]
    for step in range(NUM_STEPS):
        batch = pack([(source, np.array([*target, EOS])) for source, target in zip(sources(), targets, strict=True)])
        logits = model.logits(model(batch, make_layout(batch, "padded", 512))[batch.target_offsets[1:] - 1])
        if step == 0:
            logits[:, EOS] = -torch.inf
        for target, piece in zip(targets, logits.argmax(-1).tolist(), strict=True):
            target.append(piece)
    return [target[: target.index(EOS)] if EOS in target else target for target in targets]


def ids_of(vocabulary: Vocabulary, line: str) -> list[int]:
    ids: list[int] = vocabulary.encode([normalise(line)])[0].tolist()
    return ids


@pytest.mark.parametrize("line", LINES)
def test_ids_and_text_of_difficult_lines_are_ours(both, line):
    vocabulary, tokenizer = both
    ids = tokenizer(line)["input_ids"]
    assert ids == ids_of(vocabulary, line)
    assert tokenizer.decode(ids, skip_special_tokens=True) == normalise(line)


@MODEST
@given(line=any_text())
def test_ids_and_text_of_any_line_are_ours(both, line):
    vocabulary, tokenizer = both
    ids = tokenizer(line)["input_ids"]
    assert ids == ids_of(vocabulary, line)
    assert tokenizer.decode(ids, skip_special_tokens=True) == normalise(line)


def test_ids_of_the_demo_are_ours(both):
    vocabulary, tokenizer = both
    lines = [text for pair in islice(generate_pairs(2), 500) for text in pair]
    assert tokenizer(lines)["input_ids"] == [ids_of(vocabulary, line) for line in lines]


@MODEST
@given(data=st.data())
def test_pieces_in_any_order_are_the_text_that_we_make_of_them(both, data):
    vocabulary, tokenizer = both
    pieces = st.sampled_from([BOS, PAD, EOS, *range(UNK + 257, vocabulary.size)])
    ids = data.draw(st.lists(pieces, max_size=12))
    assert tokenizer.decode(ids, skip_special_tokens=True) == vocabulary.decode(ids)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_names_of_special_tokens_stay_text_where_the_vocabulary_has_learnt_them(tmp_path, kind):
    words = Counter({"</s>": 900, "<s>x</s>": 900, "<pad>": 900, "<unk>": 900, "<0x41>": 900, "<0x0A><0x41>": 900})
    model = train_vocabulary(words, VocabularyConfig(size=340, type=kind)).model
    write(tmp_path / "model", model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    for line in [*words, " ".join(words), "".join(words)]:
        ids = tokenizer(line)["input_ids"]
        assert not {BOS, PAD, UNK} & set(ids) and ids.index(EOS) == len(ids) - 1
        assert tokenizer.decode(ids, skip_special_tokens=True) == line


def test_tokenizer_pads_at_the_end_and_knows_its_special_tokens(both):
    vocabulary, tokenizer = both
    assert not isinstance(tokenizer, transformers.M2M100Tokenizer) and tokenizer.is_fast
    assert len(tokenizer) == vocabulary.size and tokenizer.model_max_length == 1024
    special = (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
    assert special == (BOS, PAD, EOS, UNK)
    batch = tokenizer(["a dog", ""], padding=True)
    assert batch["input_ids"][1] == [EOS] + [PAD] * (len(batch["input_ids"][0]) - 1)
    assert sum(batch["attention_mask"][1]) == 1


def test_every_weight_has_its_place(exported):
    _, folder = exported
    loaded, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert isinstance(loaded, transformers.M2M100ForConditionalGeneration)
    assert not any(info.values())
    assert loaded.lm_head.weight is loaded.model.shared.weight
    assert loaded.dtype == torch.float32


@torch.no_grad()
def test_logits_of_a_padded_batch_are_those_of_our_packed_one(exported):
    model, folder = exported
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    pairs = random_pairs([(3, 9), (12, 2), (1, 1), (7, 15)])
    batch = pack(pairs)

    def padded(sentences: list[np.ndarray]) -> torch.Tensor:
        rows = [torch.from_numpy(sentence) for sentence in sentences]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)

    source = padded([source for source, _ in pairs])
    target = padded([np.roll(target, 1) for _, target in pairs])
    is_target = padded([target for _, target in pairs]) != PAD
    theirs = loaded(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits
    ours = model.logits(model(batch, make_layout(batch, "padded", 512)))
    torch.testing.assert_close(theirs[is_target], ours, atol=1e-5, rtol=0)


def generate(folder: Path, **options: object) -> list[list[int]]:
    """What `transformers` makes of all sources in one padded batch."""
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer.pad({"input_ids": [source.tolist() for source in sources()]}, return_tensors="pt")
    rows = loaded.generate(**batch, **options).tolist()
    return [[piece for piece in row if piece not in (PAD, EOS)] for row in rows]


def test_greedy_translations_of_padded_batches_are_ours(exported):
    model, folder = exported
    ours = translate_plainly(model)
    assert generate(folder, num_beams=1, early_stopping=False, length_penalty=1.0) == ours
    assert len({len(translation) for translation in ours}) > 2  # some end early
    assert NUM_STEPS in {len(translation) for translation in ours}


def test_ctranslate2_converts_the_folder_into_the_same_model(exported, tmp_path):
    model, folder = exported
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(tmp_path / "converted"))
    translator = ctranslate2.Translator(str(tmp_path / "converted"), intra_threads=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = [tokenizer.convert_ids_to_tokens(source.tolist()) for source in sources()]

    def translate(**options: object) -> list[list[int]]:
        results = translator.translate_batch(tokens, max_decoding_length=NUM_STEPS, **options)
        return [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]

    assert translate(beam_size=1) == translate_plainly(model)
    assert translate(beam_size=4, length_penalty=0.8) == generate(folder)


def test_search_is_written_for_generate(exported):
    _, folder = exported
    search = transformers.GenerationConfig.from_pretrained(folder)
    assert (search.num_beams, search.length_penalty, search.max_length) == (4, 0.8, NUM_STEPS + 1)
    assert (search.decoder_start_token_id, search.eos_token_id, search.pad_token_id) == (EOS, EOS, PAD)


def test_vocabulary_lies_beside_it(exported):
    _, folder = exported
    assert (folder / "sentencepiece.model").read_bytes() == vocabulary_of("unigram")
    assert json.loads((folder / "config.json").read_text())["max_position_embeddings"] == 1024


@pytest.mark.parametrize("fields", [{"norm": "rms"}, {"positions": "rotary"}, {"feedforward": "swiglu"}])
def test_networks_that_m2m100_does_not_have_are_refused(fields):
    check_is_m2m100(small_config())
    check_is_m2m100(ModelConfig.model_validate({"preset": "big"}))
    with pytest.raises(ConfigError, match=f'{next(iter(fields.values()))}".*; export it as ctranslate2 instead'):
        check_is_m2m100(small_config(**fields))


def test_foreign_vocabularies_are_refused(tmp_path):
    """Ids would differ without a word."""
    sources, targets = invented_text(100)
    for number, options in enumerate(({"normalization_rule_name": "nmt_nfkc"}, {"user_defined_symbols": ["<x>"]})):
        prefix = tmp_path / str(number)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sources + targets),
            model_prefix=str(prefix),
            **{"vocab_size": 400, "byte_fallback": True, "normalization_rule_name": "identity", "minloglevel": 2}
            | {"bos_id": BOS, "pad_id": PAD, "eos_id": EOS, "unk_id": UNK}
            | options,
        )
        with pytest.raises(DataError, match="identity normalisation"):
            write(tmp_path / f"folder{number}", prefix.with_suffix(".model").read_bytes())


def test_a_folder_that_says_something_else_is_found_out(tmp_path):
    folder = tmp_path / "folder"
    model = write(folder, vocabulary_of("unigram"))
    pairs = random_pairs([(5, 7), (9, 3), (1, 1)])
    found = check_hugging_face(model, folder, pairs)
    assert found is not None
    assert found.difference < 1e-5
    assert found.num_pieces == 11
    with torch.no_grad():
        model.decoder_norm.bias[3] += 0.01
    with pytest.raises(ParityError, match="does not say what the checkpoint says"):
        check_hugging_face(model, folder, pairs)
