"""What a data folder holds, in figures: the table at the end of `prepare`, and the same for programs."""

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from septuagint.data.filters import FILTERS
from septuagint.data.manifest import Corpus, Manifest, Side
from septuagint.data.prepare import Prepared
from septuagint.data.scripts import has_spaces


def summarise(prepared: Prepared) -> dict[str, Any]:
    """The figures of a preparation as JSON. Bytes are of the kept, normalised text; tokens include EOS."""
    manifest = prepared.manifest
    corpora = [
        _corpus_figures(split, corpus, manifest) for split, entries in manifest.splits.items() for corpus in entries
    ]
    train = [figures for figures in corpora if figures["split"] == "train"]
    return {
        "folder": str(prepared.folder),
        "is_new": prepared.is_new,
        "seconds": round(prepared.seconds, 3),
        "source_language": manifest.source_language,
        "target_language": manifest.target_language,
        "fingerprint": manifest.fingerprint,
        "vocabulary": manifest.vocabulary.model_dump(mode="json"),
        "train": {
            "lines": sum(figures["lines"] for figures in train),
            "pairs": sum(figures["pairs"] for figures in train),
            "dropped": dict(dropped_by_filter(manifest.train)),
            "source": _total([figures["source"] for figures in train]),
            "target": _total([figures["target"] for figures in train]),
        },
        "corpora": corpora,
    }


def dropped_by_filter(corpora: tuple[Corpus, ...]) -> Counter[str]:
    """Dropped pairs by filter, in the order in which the filters are tried."""
    total: Counter[str] = Counter()
    for corpus in corpora:
        total.update(corpus.dropped)
    return Counter({name: total[name] for name in FILTERS if total[name]})


def print_summary(prepared: Prepared, console: Console, *, show_examples: bool = False) -> None:
    """Tables for people, at most 80 columns wide."""
    manifest = prepared.manifest
    console.print(_corpus_table(manifest))
    console.print(_filter_table(manifest))
    if show_examples:
        _print_examples(manifest, console)
    vocabulary = manifest.vocabulary
    console.print(f"vocabulary: {vocabulary.size:,} pieces ({vocabulary.type})", highlight=False)
    state = f"prepared in {prepared.seconds:.1f} s" if prepared.is_new else "nothing changed since it was prepared"
    console.print(f"data folder: {prepared.folder} ({state})", highlight=False, soft_wrap=True, markup=False)


def _corpus_figures(split: str, corpus: Corpus, manifest: Manifest) -> dict[str, Any]:
    return {
        "split": split,
        "name": corpus.name,
        "inputs": [file.model_dump(mode="json") for file in corpus.inputs],
        "lines": corpus.lines,
        "pairs": corpus.pairs,
        "dropped": corpus.dropped,
        "damaged_lines": {kind: list(lines) for kind, lines in corpus.damaged_lines.items()},
        "source": _side_figures(corpus.source, corpus.pairs, manifest.source_language),
        "target": _side_figures(corpus.target, corpus.pairs, manifest.target_language),
    }


def _side_figures(side: Side, num_sentences: int, language: str) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "sentences": num_sentences,
        "bytes": side.bytes,
        "characters": side.characters,
        "words": side.words if has_spaces(language) else None,
        "tokens": side.tokens,
        "longest": side.longest,
    }
    return {**figures, "pieces_per_word": _fertility(figures)}


def _total(sides: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {
        key: sum(side[key] for side in sides) for key in ("sentences", "bytes", "characters", "tokens")
    }
    words = [side["words"] for side in sides]
    total |= {"words": None if None in words else sum(words), "longest": max(side["longest"] for side in sides)}
    return {**total, "pieces_per_word": _fertility(total)}


def _fertility(figures: dict[str, Any]) -> float | None:
    """Pieces to a word (tokens less the EOS of each sentence); None for a language without words to count."""
    if not figures["words"]:
        return None
    num_pieces: int = figures["tokens"] - figures["sentences"]
    return round(num_pieces / int(figures["words"]), 3)


def _corpus_table(manifest: Manifest) -> Table:
    source, target = manifest.source_language, manifest.target_language
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("corpus", overflow="fold")
    for name in (
        "lines",
        "kept",
        f"MB {source}",
        f"MB {target}",
        f"tokens {source}",
        f"tokens {target}",
        "pieces/word",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for split, corpora in manifest.splits.items():
        for corpus in corpora:
            figures = _corpus_figures(split, corpus, manifest)
            name = corpus.name if split == "train" else f"{corpus.name} [dim]({split})[/dim]"
            table.add_row(name, *_cells(corpus.lines, corpus.pairs, figures["source"], figures["target"]))
    if len(manifest.train) > 1:
        rows = [_corpus_figures("train", corpus, manifest) for corpus in manifest.train]
        lines, pairs = sum(row["lines"] for row in rows), sum(row["pairs"] for row in rows)
        sides = [_total([row[side] for row in rows]) for side in ("source", "target")]
        table.add_row("training in all", *_cells(lines, pairs, *sides), style="bold")
    return table


def _cells(lines: int, pairs: int, source: dict[str, Any], target: dict[str, Any]) -> list[str]:
    return [
        f"{lines:,}",
        f"{pairs:,}",
        _megabytes(source["bytes"]),
        _megabytes(target["bytes"]),
        _millions(source["tokens"]),
        _millions(target["tokens"]),
        " ".join(
            "–" if side["pieces_per_word"] is None else f"{side['pieces_per_word']:.2f}" for side in (source, target)
        ),
    ]


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f}" if num_bytes >= 1e6 else f"{num_bytes / 1e6:.2f}"


def _millions(number: int) -> str:
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number:,}"


def _filter_table(manifest: Manifest) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("dropped by filter")
    table.add_column("pairs", justify="right")
    table.add_column("share", justify="right")
    table.add_column("because", style="dim")
    num_lines = sum(corpus.lines for corpus in manifest.train)
    dropped = dropped_by_filter(manifest.train)
    for name, count in dropped.items():
        table.add_row(name, f"{count:,}", f"{100 * count / num_lines:.2f}%", FILTERS[name])
    total = sum(dropped.values())
    table.add_row("in all", f"{total:,}", f"{100 * total / num_lines:.2f}%", "of the training lines", style="bold")
    return table


def _print_examples(manifest: Manifest, console: Console) -> None:
    for corpus in manifest.train:
        for example in corpus.examples:
            place = f"{corpus.name}" + ("" if example.line is None else f" line {example.line:,}")
            console.print(f"{example.filter} ({place})", style="bold", markup=False)
            console.print(f"  {example.source}\n  {example.target}", markup=False, highlight=False, soft_wrap=True)
