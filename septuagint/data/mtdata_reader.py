"""What mtdata knows: the program that `mtdata_process` runs, with questions on its input and answers on its output.

look up   where a corpus lies: {"urls": […]}
read      downloaded files into two parallel ones: {"num_pairs": …}
recipe    names of corpora: {"train": […], "valid": […], "test": […], "monolingual": […]}

The answer to any of them may be {"error": why not}.
"""

import bz2
import difflib
import errno
import gzip
import importlib
import json
import lzma
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from septuagint.data.files import written_aside

_DECOMPRESSORS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what is open is closed, and what is half written removed
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what mtdata prints is no answer
        for line in sys.stdin:
            asked = json.loads(line)
            find = _find_recipe if asked["verb"] == "recipe" else _find_corpus
            try:
                _load_index()
                found = find(asked)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                found = {"error": f"cannot write to {os.environ['MTDATA']}: {error.strerror}; free some space"}
            answers.write(json.dumps(found) + "\n")
            answers.flush()


def _load_index() -> None:
    """mtdata keeps its index as a file that it writes in place: one that was cut short is made again."""
    from mtdata import cached_index_file

    try:
        importlib.import_module("mtdata.index")  # which loads it, or makes it
    except OSError:
        cached_index_file.unlink(missing_ok=True)
        raise
    except Exception:  # a damaged pickle can raise anything
        if not cached_index_file.exists():
            raise
        cached_index_file.unlink()
        importlib.import_module("mtdata.index")


def _find_recipe(question: dict[str, Any]) -> dict[str, Any]:
    from mtdata.index import INDEX
    from mtdata.iso.bcp47 import BCP47Tag, bcp47
    from mtdata.recipe import RECIPES

    name, languages = question["name"], question["languages"]
    if name not in RECIPES:
        hint = _hint(difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.3))
        return {"error": f"mtdata has no recipe {name!r}{hint}; `mtdata list-recipe` shows what there is"}
    recipe = RECIPES[name]
    codes = [str(language) for language in recipe.langs]
    if len(codes) != 2 or any(language.lang == "mul" for language in recipe.langs):
        return {
            "error": f"recipe {name} is {'-'.join(codes)}, and a recipe must be of two languages; "
            "list those of its corpora that fit, each as mtdata = …"
        }
    try:
        is_fit, _ = BCP47Tag.check_compat_swap(tuple(map(bcp47, languages)), recipe.langs)
    except Exception:  # mtdata has one kind of error for everything
        is_fit = False
    if not is_fit:
        return {
            "error": f"recipe {name} is {' and '.join(codes)}, not {' and '.join(languages)}; "
            "set data.source_language and data.target_language"
        }
    train, valid, test = recipe.train or [], recipe.dev or [], recipe.test or []
    if unknown := [str(corpus) for corpus in train + valid + test if corpus not in INDEX.entries]:
        return {"error": f"recipe {name} lists what mtdata does not know: {', '.join(unknown)}"}
    monolingual = (recipe.mono_train or []) + (recipe.mono_dev or []) + (recipe.mono_test or [])
    found = {"train": train, "valid": valid, "test": test, "monolingual": monolingual}
    return {split: [str(corpus) for corpus in corpora] for split, corpora in found.items()}


def _find_corpus(question: dict[str, Any]) -> dict[str, Any]:
    from mtdata.entry import DatasetId
    from mtdata.index import INDEX
    from mtdata.iso.bcp47 import BCP47Tag, bcp47

    name, languages = question["name"], question["languages"]
    try:
        entry = INDEX.entries[DatasetId.parse(name)]
        is_fit, is_swapped = BCP47Tag.check_compat_swap(tuple(map(bcp47, languages)), entry.did.langs)
    except Exception:  # mtdata has one kind of error for everything
        known = [str(did) for did in INDEX.entries if len(did.langs) == 2]
        *stem, first, second = name.split("-")
        swapped = "-".join([*stem, second, first])
        near = [did for did in known if did == swapped] or difflib.get_close_matches(
            name, [did for did in known if did[:3].lower() == name[:3].lower()], n=3
        )
        command = f"mtdata list -l {'-'.join(languages)}"
        return {"error": f"mtdata does not know {name!r}{_hint(near)}; `{command}` shows what there is"}
    if not is_fit:
        return {"error": f"{name} is not {' and '.join(languages)}; set data.source_language and data.target_language"}
    if entry.ext == "hfds":
        return {"error": f"{name} is one of Hugging Face's: save it as JSON lines, and set jsonl"}
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    if entry.in_ext == "opus_xces":
        urls += entry.in_paths
    if question["verb"] == "look up":
        return {"urls": urls}
    files, outputs = ([Path(path) for path in question[side]] for side in ("files", "outputs"))
    try:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            return {"num_pairs": _write(entry, files, outputs, is_swapped, Path(folder))}
    except Exception as error:  # mtdata has one kind of error for everything, and its formats have theirs
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        reason = str(error) or type(error).__name__
        cure = f"if the download is damaged, delete {' and '.join(map(str, files))}, and it is fetched again"
        return {"error": f"mtdata could not read {name} ({reason}); {cure}"}


def _hint(near: list[str]) -> str:
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _write(entry: Any, files: list[Path], outputs: list[Path], is_swapped: bool, folder: Path) -> int:
    from mtdata.cache import Cache
    from mtdata.parser import Parser

    paths: Any = files
    if len(files) == 1:  # mtdata reads a file as its name says, and an address need not say anything
        paths = [folder / entry.filename]
        paths[0].symlink_to(files[0])
    if entry.is_archive:
        paths = Cache(root=paths[0].parent).get_local_in_paths(paths[0], entry)
    kind = entry.in_ext or entry.ext
    _read_plainly()
    source, target = outputs
    num_pairs = 0
    with written_aside(target) as target_file, written_aside(source) as source_file:
        for first, second, *_ in Parser(paths, ext=kind, ent=entry).read_segs(show_pbar=False):
            pair = (second, first) if is_swapped else (first, second)
            for text, file in zip(pair, (source_file, target_file), strict=True):
                file.write((text or "").replace("\n", " ").encode(errors="surrogateescape") + b"\n")
            num_pairs += 1
        if num_pairs == 0:
            raise ValueError("there is not one pair in it")
    return num_pairs


def _read_plainly() -> None:
    """Lets mtdata read files by Python's own means.

    Its way is to ask xz, bzip2 or pigz, and not to look at what became of them: a cut file is a shorter one. And bytes
    that are no UTF-8 become U+FFFD: those of plain text are kept here, to be counted like those of any other file.
    """
    import mtdata.parser
    from mtdata.utils import COMPRESSORS, IO

    class PlainText:
        @staticmethod
        def reader(path: Any) -> Any:
            return IO.reader(path, errors="surrogateescape")

    def opener(open_file: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, mode, **options: open_file(path, mode, **options, newline="\n")

    mtdata.parser.IO = PlainText
    COMPRESSORS.update({ending: opener(open_file) for ending, open_file in _DECOMPRESSORS.items()})


if __name__ == "__main__":
    main()
