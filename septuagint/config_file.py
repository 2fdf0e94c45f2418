"""How a configuration file becomes a `Config`: overrides, every mistake at once, and where each value came from."""

import contextlib
import difflib
import json
import re
import tomllib
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from septuagint.config import Config, Section
from septuagint.errors import ConfigError


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a configuration file, with `a.b=c` overrides. Raises one ConfigError that lists every mistake."""
    tree = _read_tree(path)
    sources = _apply_overrides(tree, overrides)
    try:
        return Config.model_validate(tree, context={"folder": path.parent, "root": _root(tree, path)})
    except ValidationError as error:
        problems = [_problem(dict(details), tree, sources) for details in error.errors()]
        raise ConfigError(f"{path}: " + _listed(problems)) from None


def _root(tree: dict[str, Any], path: Path) -> Path:
    """Where paths of corpora begin. What is wrong with `data.root` is said when it is read."""
    data = tree.get("data")
    root = data.get("root") if isinstance(data, dict) else None
    with contextlib.suppress(RuntimeError):  # nobody's home
        return path.parent / Path(root).expanduser() if isinstance(root, str) else path.parent
    return path.parent


def describe(config: Config, path: Path, overrides: Sequence[str] = ()) -> list[tuple[str, Any, str]]:
    """(dotted key, value, where it came from) of every resolved value, in the order of the file format."""
    tree = _read_tree(path)
    given = {key for key, _ in _leaves(tree)}
    sources = _apply_overrides(tree, overrides)
    rows = []
    for key, value in _leaves(config.model_dump()):
        # `data.valid` may be written as one table; resolved, it is a list with one.
        keys = {key, re.sub(r"^data\.(train|valid|test)\.0\.", r"data.\1.", key)}
        is_set = any(key == source or key.startswith(source + ".") for key in keys for source in sources)
        origin = "--set" if is_set else str(path) if keys & given else "default"
        rows.append((key, str(value.absolute()) if isinstance(value, Path) else value, origin))
    return rows


def as_toml(rows: list[tuple[str, Any, str]]) -> str:
    """The rows of `describe` as a TOML file that means the same, each value's origin in a comment."""
    lines: list[str] = []
    section = ""
    for key, value, origin in rows:
        if value is None or value == ():
            continue  # TOML has no null: what is not set is left out, as is an empty list of tables
        table, _, name = key.rpartition(".")
        header = re.sub(r"^(.*)\.\d+$", r"[[\1]]", table) if re.search(r"\.\d+$", table) else f"[{table}]"
        if table != section:
            lines += ["", header] if lines else [header]
            section = table
        # JSON writes text, finite numbers and booleans as TOML does, but for one character.
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        lines.append(f"{name} = {text}  # {origin}")
    return "\n".join(lines) + "\n"


def _read_tree(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; give a configuration file (.toml)") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}); a configuration is a TOML text file") from None
    except (ValueError, RecursionError) as error:  # besides bad syntax: endless numbers, bottomless lists
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _apply_overrides(tree: dict[str, Any], overrides: Sequence[str]) -> set[str]:
    """Writes `a.b=c` into the tree; the dotted keys that were set."""
    problems = []
    keys = set()
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not key or not all(key.split(".")):
            problems.append(f"--set {override}: write it as section.key=value")
            continue
        problem = _set_value(tree, key, _parse_value(text.strip()))
        if problem:
            problems.append(f"--set {override}: {problem}")
        keys.add(key)
    if problems:
        raise ConfigError(_listed(problems))
    return keys


def _set_value(tree: dict[str, Any], key: str, value: Any) -> str | None:
    """What is wrong, or None when the value was written."""
    *parents, last = key.split(".")
    place: Any = tree
    for part in parents:
        if isinstance(place, list):
            if not _is_index(part, place):
                return f"there is no entry {part!r}; entries are numbered 0 to {len(place) - 1}"
            place = place[int(part)]
        elif part == "0" and place.keys() & {"source", "target", "tsv", "jsonl", "mtdata", "sacrebleu"}:
            continue  # a single table is as good as a list with one
        else:
            place = place.setdefault(part, {})
        if not isinstance(place, (dict, list)):
            return f"{part!r} is a value, not a section"
    if not isinstance(place, list):
        place[last] = value
    elif _is_index(last, place):
        place[int(last)] = value
    else:
        return f"name the entry too, such as {'.'.join(parents)}.0.{last}"
    return None


def _is_index(text: str, entries: list[Any]) -> bool:
    return text.isascii() and text.isdecimal() and int(text[:9]) < len(entries)


def _parse_value(text: str) -> Any:
    """As TOML reads it; a bare word is text, so that `--set model.preset=big` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _listed(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} mistakes\n" + "\n".join(f"  {problem}" for problem in problems)


def _problem(error: dict[str, Any], tree: dict[str, Any], sources: set[str]) -> str:
    """One line for one mistake: the key, the rule, the value and, for an unknown key, the nearest known one."""
    location = _without_list_of_one(error["loc"], tree)
    key = ".".join(str(part) for part in location) or "file"
    where = f"--set {key}" if key in sources else key
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{_suggestion(location)}"
    if error["type"] == "missing":
        return f"{where}: missing; it must be given"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in ("model_type", "model_attributes_type"):
        message = f"must be a section, [{key}]"
    if error["type"] == "tuple_type":
        message = f"must be a list of tables, [[{key}]]"
    message = message[:1].lower() + message[1:]
    if "source_language" in key or "target_language" in key:
        message = "must be a language code such as en, de, zh or pt-BR"
    if error["type"] == "value_error" and isinstance(error["input"], dict):
        return f"{where}: {message}"
    return f"{where}: {message} (got {_shortened(error['input'])})"


def _without_list_of_one(location: tuple[Any, ...], tree: dict[str, Any]) -> tuple[Any, ...]:
    """The location as the user wrote it: `_as_list` put single tables into lists."""
    kept: list[Any] = []
    place: Any = tree
    for part in location:
        if isinstance(part, int) and isinstance(place, dict):
            continue
        kept.append(part)
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int):
            place = place[part] if part < len(place) else None  # what is missing has a place as well
    return tuple(kept)


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = re.sub(r"//[^\s\"]*@", "//…@", text)  # an address may have a password
    return text if len(text) <= 60 else text[:57] + "..."


def _suggestion(location: tuple[Any, ...]) -> str:
    """`; did you mean 'max_steps'?`, from the same section first, then from the others."""
    *parents, name = location
    section: type[Section] = Config
    for part in parents:
        if isinstance(part, str):
            section = _sections(section)[part]
    near = difflib.get_close_matches(str(name), list(section.model_fields), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    elsewhere = [key for key in _all_keys(Config) if key.rpartition(".")[2] == name]
    if elsewhere:
        return f"; {name!r} belongs to [{elsewhere[0].rpartition('.')[0]}]"
    return f"; known here: {', '.join(section.model_fields)}"


def _sections(section: type[Section]) -> dict[str, type[Section]]:
    """The sections inside a section, also those inside a list."""
    found = {}
    for name, field in section.model_fields.items():
        candidates = [field.annotation, *typing.get_args(field.annotation)]
        for candidate in candidates:
            if isinstance(candidate, type) and issubclass(candidate, Section):
                found[name] = candidate
    return found


def _all_keys(section: type[Section], prefix: str = "") -> Iterator[str]:
    inner = _sections(section)
    for name in section.model_fields:
        if name in inner:
            yield from _all_keys(inner[name], f"{prefix}{name}.")
        else:
            yield prefix + name


def _leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every value that is not itself a section or a list of sections."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in items:
        key = f"{prefix}{name}"
        if isinstance(value, dict) or (isinstance(value, (list, tuple)) and any(isinstance(v, dict) for v in value)):
            yield from _leaves(value, key + ".")
        else:
            yield key, value
