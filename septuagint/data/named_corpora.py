"""Corpora by address or by name, as files on this disk.

    https://host/corpus.en.gz                        a file, plain or compressed
    https://host/corpus.tgz#member=folder/corpus.en  one of an archive (tar, zip)
    …#sha256=0123…                                   and what the file must be; `&` between several
    mtdata = "Statmt-europarl-10-deu-eng"            a corpus in mtdata's index of a quarter of a million
    sacrebleu = "wmt14/full"                         a test set of sacreBLEU
    recipe = "vaswani_etal_2017_ende"                corpora that mtdata lists under one name

Everything is fetched by `downloads` into its cache, and once there, nothing asks the network again.
"""

import contextlib
import copy
import difflib
import hashlib
import importlib.metadata
import importlib.util
import lzma
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from septuagint.config import AnyCorpus, CorpusConfig, DataConfig, TrainCorpusConfig, split_address, with_names
from septuagint.data.downloads import WebFile, cache_folder, fetch
from septuagint.data.files import copy_file, hash_file, hash_json, read_object, signature, write_json, written_aside
from septuagint.data.mtdata_process import Mtdata, check_mtdata
from septuagint.errors import DataError, writing_to
from septuagint.progress import ProgressReport


def bring_home(data: DataConfig, report: ProgressReport) -> DataConfig:
    """The same corpora and those of the recipe, all of them files on this disk."""
    with Mtdata(cache_folder()) as mtdata:
        home = _Home(cache_folder(), data.source_language, data.target_language, mtdata, report)
        if data.recipe is not None:
            data = _with_recipe(data, home.recipe(data.recipe))
        splits = {split: getattr(data, split) for split in ("train", "valid", "test")}
        return data.model_copy(update={split: tuple(map(home.bring, corpora)) for split, corpora in splits.items()})


def _with_recipe(data: DataConfig, recipe: dict[str, list[str]]) -> DataConfig:
    """Behind the listed corpora those of the recipe, but for what is listed anywhere: its place and weight stand."""
    listed = {corpus.mtdata for corpus in (*data.train, *data.valid, *data.test)}
    splits: dict[str, tuple[CorpusConfig, ...]] = {}
    for split, kind in {"train": TrainCorpusConfig, "valid": CorpusConfig, "test": CorpusConfig}.items():
        added = [kind(mtdata=name) for name in recipe[split] if name not in listed]
        splits[split] = with_names((*getattr(data, split), *added))
    if not splits["train"]:
        raise DataError(f"recipe = {data.recipe!r} has no training text to add; list some in [[data.train]]")
    return data.model_copy(update=splits)


class _Home:
    """The cache, and for whom it is filled."""

    def __init__(
        self, cache: Path, source_language: str, target_language: str, mtdata: Mtdata, report: ProgressReport
    ) -> None:
        self._cache = cache.absolute()
        self._languages = source_language, target_language
        self._mtdata = mtdata
        self._report = report

    def bring(self, corpus: AnyCorpus) -> AnyCorpus:
        if corpus.mtdata is not None:
            files = self._named("mtdata", corpus.mtdata, self._read_mtdata)
        elif corpus.sacrebleu is not None:
            files = self._named("sacrebleu", corpus.sacrebleu, self._read_sacrebleu)
        else:
            files = {field: self._local(file, corpus) for field, file in corpus.files.items()}
        return corpus.model_copy(update={**files, "mtdata": None, "sacrebleu": None})

    def recipe(self, name: str) -> dict[str, list[str]]:
        """What mtdata lists under a name, by split. The answer is kept until mtdata could have another."""
        check_mtdata(f"recipe = {name!r}")
        question = {
            "verb": "recipe",
            "name": name,
            "languages": list(self._languages),
            "version": importlib.metadata.version("mtdata"),
            "recipes": [hash_file(path) for path in sorted(self._mtdata.recipes.glob("mtdata.recipes*.yml"))],
        }
        path = self._cache / "mtdata" / "recipes" / f"{name}.{'-'.join(self._languages)}.json"
        kept = read_object(path)
        if kept.get("question") != question:
            with writing_to(self._cache):
                path.parent.mkdir(parents=True, exist_ok=True)
                with self._report.stage("mtdata's recipes", None, ""):
                    kept = {"question": question, "answer": self._mtdata.ask(question)}
                write_json(path, kept)
        found: dict[str, list[str]] = kept["answer"]
        if found["monolingual"]:
            self._report.say(f"recipe {name}: monolingual text is not used: {', '.join(found['monolingual'])}")
        return found

    def _local(self, file: Path | str, corpus: CorpusConfig) -> Path:
        if isinstance(file, Path):
            return file
        address, options = _read_address(file, corpus)
        path = fetch(WebFile(url=address, sha256=options.get("sha256")), self._cache, self._report)
        member = options.get("member")
        return path if member is None else self._member(path, member)

    def _member(self, archive: Path, member: str) -> Path:
        """One file of an archive, taken out once."""
        key = hash_json([str(archive), signature(archive), member])[:16]
        path = self._cache / "members" / f"{key}-{Path(member).name}"
        if path.exists():
            return path
        with (
            writing_to(self._cache),
            _open_member(archive, member) as source,
            written_aside(path) as target,
            self._report.stage(f"taking out {Path(member).name}"[:24], None, "B"),
        ):
            shutil.copyfileobj(source, target, 1 << 20)
        return path

    def _named(self, library: str, name: str, read: Callable[[str, Path, Path], None]) -> dict[str, Path]:
        """The two sides of what a library knows; `read` makes them."""
        stem = f"{name.replace('/', '-')}.{'-'.join(self._languages)}"  # test sets have other text in each direction
        source, target = (self._cache / library / f"{stem}.{code}" for code in self._languages)
        if not (source.exists() and target.exists()):
            with writing_to(self._cache):
                source.parent.mkdir(parents=True, exist_ok=True)
                read(name, source, target)
        return {"source": source, "target": target}

    def _read_sacrebleu(self, name: str, source: Path, target: Path) -> None:
        """sacreBLEU's own reading of its test set, from files that we fetched."""
        if importlib.util.find_spec("sacrebleu") is None:
            raise DataError(f"sacrebleu = {name!r} needs sacreBLEU: pip install 'septuagint[train]'")
        from sacrebleu.dataset import DATASETS
        from sacrebleu.utils import extract_tarball

        if name not in DATASETS:
            raise DataError(f"sacreBLEU has no test set {name!r}{_nearest(name, DATASETS)}; sacrebleu --list")
        found: Any = copy.copy(DATASETS[name])
        pair = "-".join(re.split("[-_]", code)[0] for code in self._languages)
        if pair not in found.langpairs:
            raise DataError(f"sacreBLEU's {name} has no {pair}, but: {', '.join(sorted(found.langpairs))}")
        with tempfile.TemporaryDirectory(dir=self._cache) as temporary:
            folder = Path(temporary)
            found._outdir = found._rawdir = str(folder)
            for url, md5 in zip(found.data, found.md5 or [None] * len(found.data), strict=True):
                path = fetch(WebFile(url=url), self._cache, self._report)
                if md5 is not None and (own := hashlib.md5(path.read_bytes()).hexdigest()) != md5:
                    path.unlink()
                    raise DataError(
                        f"{url}: its MD5 is {own}, but sacreBLEU says {md5}: it is not that test set any more"
                    )
                archive = folder / found._get_tarball_filename(url)  # where it stands, sacreBLEU does not download
                shutil.copyfile(path, archive)
                extract_tarball(str(archive), str(folder))  # type: ignore[no-untyped-call]
            texts = dict(zip(found.fieldnames(pair), found.get_files(pair), strict=True))
            reference = next(text for field, text in texts.items() if field.startswith("ref"))
            copy_file(Path(reference), target)
            copy_file(Path(texts["src"]), source)

    def _read_mtdata(self, name: str, source: Path, target: Path) -> None:
        """mtdata's own reading of its corpus, from files that we fetched."""
        check_mtdata(f"mtdata = {name!r}")
        question = {"name": name, "languages": self._languages}
        with self._report.stage("mtdata's index", None, ""):
            entry = self._mtdata.ask({"verb": "look up", **question})
        local = [str(fetch(WebFile(url=url), self._cache, self._report)) for url in entry["urls"]]
        with self._report.stage(f"reading {name}"[:24], None, ""):
            self._mtdata.ask({"verb": "read", **question, "files": local, "outputs": [str(source), str(target)]})


def _read_address(text: str, corpus: CorpusConfig) -> tuple[str, dict[str, str]]:
    """(address, what stands behind its #)."""
    address, options = split_address(text)
    if options.keys() - {"member", "sha256"} or "" in options.values():
        raise DataError(
            f"corpus {corpus.name!r}: {text}: behind # stand member=…, sha256=… or both, with & between them"
        )
    if (sha256 := options.get("sha256")) is not None:
        options["sha256"] = sha256.lower()
        if len(sha256) != 64 or not set(sha256.lower()) <= set("0123456789abcdef"):
            raise DataError(f"corpus {corpus.name!r}: {text}: a SHA-256 has 64 digits from 0 to f")
    return address, options


@contextlib.contextmanager
def _open_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        try:
            if zipfile.is_zipfile(archive):
                box = stack.enter_context(zipfile.ZipFile(archive))
                yield stack.enter_context(box.open(_find_member(archive, member, box.namelist())))
            elif tarfile.is_tarfile(archive):
                tape = stack.enter_context(tarfile.open(archive))
                file = tape.extractfile(_find_member(archive, member, tape.getnames()))
                if file is None:
                    raise DataError(f"{archive}: {member} is no file")
                yield stack.enter_context(file)
            else:
                raise DataError(f"{archive}: neither tar nor zip, so there is no {member} in it; leave #member= away")
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
            raise DataError(
                f"{archive}: the archive is damaged ({error}); delete it, and it is fetched again"
            ) from None


def _find_member(archive: Path, member: str, names: list[str]) -> str:
    plain = {name.removeprefix("./"): name for name in names}
    if member.removeprefix("./") not in plain:
        raise DataError(f"{archive}: has no {member}{_nearest(member, plain)}")
    return plain[member.removeprefix("./")]


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
