"""Whether every form of a model says the same: ours in torch, CTranslate2, Hugging Face, and CTranslate2 by way of it.

    python benchmarks/agreement.py RUN --source F [--lines 500]

Counts the lines whose translations differ from our own beam search on the checkpoint, in float32 on the CPU, for greedy
search and for beam 4. Where one differs, the scores of both tell why: as a rule they are equal to a few digits.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from arguments import at_least_one, mistakes_told

from septuagint.data.normaliser import normalise
from septuagint.data.vocabulary import EOS
from septuagint.errors import ConfigError
from septuagint.inference.artifact import MODEL
from septuagint.inference.beam import translate_ids
from septuagint.inference.export import export
from septuagint.inference.parity import token_log_probs
from septuagint.inference.search import length_limit
from septuagint.inference.text_stream import read_lines
from septuagint.inference.trained import Trained, open_trained
from septuagint.progress import ProgressReport

Lines = list[list[int]]
Search = Callable[[Sequence[np.ndarray], int], Lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=at_least_one, default=500)
    arguments = parser.parse_args()
    trained = open_trained(arguments.run)
    ids, lengths = trained.vocabulary.encode(
        [normalise(line) for line in read_lines(arguments.source).lines[: arguments.lines]]
    )
    sources = np.split(ids, np.cumsum(lengths)[:-1])
    model = trained.network()
    report = ProgressReport(is_quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        export(arguments.run, Path(folder) / "ct2", quantization="float32", report=report)
        others = {"CTranslate2": open_ctranslate2(Path(folder) / "ct2" / MODEL, trained)}
        try:
            export(arguments.run, Path(folder) / "hf", format="huggingface", report=report)
            others["Hugging Face"] = open_hugging_face(Path(folder) / "hf")
            others["CTranslate2 from Hugging Face"] = open_converted(Path(folder), trained)
        except ConfigError as error:
            print(f"no Hugging Face: {error}")
        for beam_size in (1, 4):
            ours = [found[0].ids for found in translate_ids(model, sources, beam_size=beam_size)]
            for name, search in others.items():
                theirs = search(sources, beam_size)
                rows = [row for row in range(len(ours)) if ours[row] != theirs[row]]
                print(f"beam {beam_size}, {name}: {len(rows)} of {len(sources)} lines differ")
                for row in rows[:10]:
                    mine, other = (score_of(model, sources[row], line[row]) for line in (ours, theirs))
                    print(f"  line {row + 1}: score {mine:.6f} here, {other:.6f} there")


def score_of(model, source: np.ndarray, ids: list[int]) -> float:  # type: ignore[no-untyped-def]  # a Transformer
    """The mean log-probability of a translation, by the checkpoint."""
    return float(token_log_probs(model, [(source, np.array([*ids, EOS]))])[0].mean())


def open_ctranslate2(folder: Path, trained: Trained) -> Search:
    """One call for each length, since the limit is one for all of a call."""
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    names = trained.vocabulary.pieces
    numbers = {name: number for number, name in enumerate(names)}

    def search(sources: Sequence[np.ndarray], beam_size: int) -> Lines:
        found: Lines = [[] for _ in sources]
        for length in sorted({len(source) for source in sources}):
            rows = [row for row, source in enumerate(sources) if len(source) == length]
            results = translator.translate_batch(
                [[names[i] for i in sources[row][:-1]] for row in rows],
                beam_size=beam_size,
                max_decoding_length=length_limit(length),
                max_input_length=0,
            )
            for row, result in zip(rows, results, strict=True):
                found[row] = [numbers[piece] for piece in result.hypotheses[0]]
        return found

    return search


def open_hugging_face(folder: Path) -> Search:
    """Padded batches of 32, in the order of the text."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    pad = model.config.pad_token_id

    @torch.inference_mode()
    def search(sources: Sequence[np.ndarray], beam_size: int) -> Lines:
        found: Lines = []
        for begin in range(0, len(sources), 32):
            batch = [torch.from_numpy(source.astype(np.int64)) for source in sources[begin : begin + 32]]
            ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=pad)
            limit = length_limit(ids.shape[1])
            written = model.generate(
                input_ids=ids, attention_mask=ids != pad, num_beams=beam_size, max_new_tokens=limit, max_length=None
            )
            found += [[i for i in line[1:] if i not in (pad, EOS)] for line in written.tolist()]
        return found

    return search


def open_converted(folder: Path, trained: Trained) -> Search:
    """The Hugging Face folder, as CTranslate2's own converter reads it."""
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder / "hf")).convert(str(folder / "converted"))
    search = open_ctranslate2(folder / "converted", trained)
    # Its converter leaves EOS to whoever cuts text into pieces.
    return search if _adds_eos(folder / "converted") else _with_eos(folder / "converted", trained)


def _adds_eos(folder: Path) -> bool:
    return '"add_source_eos": true' in (folder / "config.json").read_text()


def _with_eos(folder: Path, trained: Trained) -> Search:
    search = open_ctranslate2(folder, trained)
    return lambda sources, beam_size: search([np.append(source, EOS) for source in sources], beam_size)


if __name__ == "__main__":
    with mistakes_told():
        main()
