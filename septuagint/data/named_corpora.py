"""Corpora by address or by name, as files on this disk.

    https://host/corpus.en.gz                        a file, plain or compressed
    https://host/corpus.tgz#member=folder/corpus.en  one of an archive (tar, zip)
    …#sha256=0123…                                   and what the file must be; `&` between several
    mtdata = "Statmt-europarl-10-deu-eng"            a corpus in mtdata's index of a quarter of a million
    sacrebleu = "wmt14/full"                         a test set of sacreBLEU
    recipe = "vaswani_etal_2017_ende"                corpora that mtdata lists under one name

Everything is fetched by `downloads` into its cache, and once there, nothing asks the network again. What is made of it
(members of archives, the two sides of a corpus) lies there as well, and is made anew when it is not as it was.
"""

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
from septuagint.data.addresses import MAX_NAME_BYTES, web_address
from septuagint.data.downloads import WebFile, cache_folder, fetch
from septuagint.data.files import (
    copy_file,
    hash_file,
    hash_json,
    one_at_a_time,
    read_object,
    remove_leftovers,
    signature,
    write_json,
    written_aside,
)
from septuagint.data.kept import keep, kept
from septuagint.data.mtdata_process import Mtdata, check_mtdata
from septuagint.errors import DataError, writing_to
from septuagint.progress import ProgressReport


def bring_home(data: DataConfig, report: ProgressReport, *, verify: bool = False) -> DataConfig:
    """The same corpora and those of the recipe, all of them files on this disk.

    `verify` reads what is in the cache again instead of trusting files that have not been touched.
    """
    with Mtdata(cache_folder()) as mtdata:
        home = _Home(cache_folder(), data.source_language, data.target_language, mtdata, report, is_trusted=not verify)
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
        self,
        cache: Path,
        source_language: str,
        target_language: str,
        mtdata: Mtdata,
        report: ProgressReport,
        *,
        is_trusted: bool = True,
    ) -> None:
        self._cache = cache.absolute()
        self._is_trusted = is_trusted
        self._pins: dict[str, str] = {}  # by address
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
        pin = options.get("sha256")
        if pin is not None and self._pins.setdefault(address, pin) != pin:
            raise DataError(
                f"corpus {corpus.name!r}: {address}: a file has one SHA-256, but both {self._pins[address]} and {pin} "
                "are asked for; give the same for all that is read from it"
            )
        path = self._fetch(WebFile(url=address, sha256=pin))
        member = options.get("member")
        return path if member is None else self._member(path, member)

    def _fetch(self, file: WebFile) -> Path:
        return fetch(file, self._cache, self._report, is_trusted=self._is_trusted)

    def _member(self, archive: Path, member: str) -> Path:
        """One file of an archive, taken out once."""
        key = hash_json([str(archive), signature(archive), member])[:16]
        path = self._cache / "members" / f"{key}-{_short_name(member)}"
        if kept(path, is_trusted=self._is_trusted):
            return path
        with writing_to(self._cache):
            path.parent.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(path.parent):
                remove_leftovers(path)
                if not kept(path, is_trusted=self._is_trusted):  # whoever was before us may have taken it out
                    with (
                        self._report.stage(f"taking out {_short_name(member)}"[:24], None, "B") as stage,
                        written_aside(path) as target,
                    ):
                        for piece in _read_member(archive, member):
                            target.write(piece)
                            stage.advance(len(piece))
                    keep(path)
        return path

    def _named(self, library: str, name: str, read: Callable[[str, Path, Path], None]) -> dict[str, Path]:
        """The two sides of what a library knows; `read` makes them."""
        stem = f"{name.replace('/', '-')}.{'-'.join(self._languages)}"  # test sets have other text in each direction
        source, target = (self._cache / library / f"{stem}.{code}" for code in self._languages)
        if not all(kept(side, is_trusted=self._is_trusted) for side in (source, target)):
            with writing_to(self._cache):
                source.parent.mkdir(parents=True, exist_ok=True)
                read(name, source, target)
                for side in (source, target):
                    keep(side)
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
                path = self._fetch(WebFile(url=url, is_listed=False))
                if md5 is not None and (own := hashlib.md5(path.read_bytes()).hexdigest()) != md5:
                    path.unlink()
                    raise DataError(
                        f"{url}: its MD5 is {own}, but sacreBLEU says {md5}: it is not that test set any more; look "
                        "for it elsewhere, and give its two sides as files"
                    )
                archive = folder / found._get_tarball_filename(url)  # where it stands, sacreBLEU does not download
                shutil.copyfile(path, archive)
                extract_tarball(str(archive), str(folder))  # type: ignore[no-untyped-call]
            # Of several references, sacreBLEU says which are to be scored with, and we have one.
            references = found.get_reference_files(pair)
            if not references:
                raise DataError(f"sacreBLEU's {name} has no reference for {pair}; give another test set")
            if len(references) > 1:
                self._report.say(f"sacreBLEU's {name} has {len(references)} references for {pair}; the first is taken")
            copy_file(Path(references[0]), target)
            copy_file(Path(found.get_source_file(pair)), source)

    def _read_mtdata(self, name: str, source: Path, target: Path) -> None:
        """mtdata's own reading of its corpus, from files that we fetched."""
        check_mtdata(f"mtdata = {name!r}")
        question = {"name": name, "languages": self._languages}
        with self._report.stage("mtdata's index", None, ""):
            entry = self._mtdata.ask({"verb": "look up", **question})
        local = [str(self._fetch(WebFile(url=url, is_listed=False))) for url in entry["urls"]]
        with self._report.stage(f"reading {name}"[:24], None, ""):
            self._mtdata.ask({"verb": "read", **question, "files": local, "outputs": [str(source), str(target)]})


def _read_address(text: str, corpus: CorpusConfig) -> tuple[str, dict[str, str]]:
    """(address, what stands behind its #)."""
    address, options = split_address(text)
    web_address(address)  # first of all: a password in it is not to be shown
    is_repeated = len(options) < len([part for part in text.partition("#")[2].split("&") if part])
    if options.keys() - {"member", "sha256"} or "" in options.values() or is_repeated:
        raise DataError(
            f"corpus {corpus.name!r}: {text}: behind # stand member=…, sha256=… or both, once each, with & between them"
        )
    if (sha256 := options.get("sha256")) is not None:
        options["sha256"] = sha256.lower()
        if len(sha256) != 64 or not set(sha256.lower()) <= set("0123456789abcdef"):
            raise DataError(f"corpus {corpus.name!r}: {text}: a SHA-256 has 64 digits from 0 to f")
    return address, options


def _read_member(archive: Path, member: str) -> Iterator[bytes]:
    """The bytes of one file of an archive, which is read to its end: that is where checksums stand."""
    by_hand = "take the file out by hand, and give its path"
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as box, box.open(_find_member(archive, member, box.namelist())) as file:
                yield from _pieces(file)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tape:
                found = tape.extractfile(_find_member(archive, member, tape.getnames()))
                if found is None:
                    raise DataError(f"{archive}: {member} is no file; name one that is")
                yield from _pieces(found)
                rest: Any = tape.fileobj
                for _ in _pieces(rest):
                    pass
        else:
            raise DataError(
                f"{archive}: neither tar nor zip, or cut, so there is no {member} in it; leave #member= away, or "
                "delete the file, and it is fetched again"
            )
    except (KeyError, RecursionError):
        raise DataError(f"{archive}: {member} is a link to what is not in the archive; name another member") from None
    except RuntimeError as error:  # encrypted, or packed in a way that Python does not know
        raise DataError(f"{archive}: {member} cannot be taken out ({error}); {by_hand}") from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        raise DataError(f"{archive}: the archive is damaged ({error}); delete it, and it is fetched again") from None


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(1 << 20):
        yield piece


def _short_name(member: str) -> str:
    """Of a long name the end, as with downloads: a file system has no more than 255 bytes for it."""
    return Path(member).name.encode()[-MAX_NAME_BYTES:].decode(errors="ignore")


def _find_member(archive: Path, member: str, names: list[str]) -> str:
    plain = {name.removeprefix("./"): name for name in names}
    if member.removeprefix("./") not in plain:
        raise DataError(f"{archive}: has no {member}{_nearest(member, plain)}")
    return plain[member.removeprefix("./")]


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
