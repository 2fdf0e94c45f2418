"""Addresses on the web: which are good, how they are written in HTTP, and what a mirror makes of them."""

import re
import string
from pathlib import PurePosixPath
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from septuagint.errors import DataError

MIRROR = "SEPTUAGINT_MIRROR"
BY_HAND = "download it by hand, and give the path of the file instead"

# Some file systems allow 143 bytes; the hash of the address and the endings of temporary files take up to 43.
MAX_NAME_BYTES = 100
_HOST = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")


def web_address(url: str) -> SplitResult:
    """An address in the characters that HTTP has."""
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            raise DataError(f"{shown}: no user name or password can be given, as addresses are recorded; {BY_HAND}")
        name, port = parts.hostname or "", parts.port
        host = f"[{name}]" if ":" in name else name.encode("idna").decode()
        if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or not url.isprintable():
            raise ValueError
    except ValueError:
        shown = without_password(url)
        raise DataError(f"{shown!a}: not a web address; it should look like https://host/file.gz") from None
    return parts._replace(
        netloc=host if port is None else f"{host}:{port}",
        path=quote(parts.path or "/", safe="/%:@!$&'()*+,;=[]"),
        query=quote(parts.query, safe="/%:@!$&'()*+,;=[]?"),
    )


def without_password(text: str) -> str:
    """What is meant for an address, as a message may show it: what looks like the name of a user is left out.

    Passwords may hold any character, so everything before the last @ is one; a port that is no number may be one, too.
    """
    scheme, slashes, rest = text.partition("//")
    if not slashes:
        scheme, rest = "", text
    rest = rest.rpartition("@")[2]
    name, colon, behind = rest.partition(":")
    if colon and not name.startswith("[") and not re.match(r"\d*(/|\?|#|$)", behind):
        rest = f"{name}:…"
    return scheme + slashes + rest


def first_address(url: str, mirror: str | None) -> str:
    """Where to ask for a file: its own address, or the same under that of the mirror."""
    address = web_address(url)
    if not mirror:
        return address.geturl()
    try:
        base = web_address(mirror)
    except DataError as error:
        raise DataError(f"{MIRROR}: {error}") from None
    return base._replace(path=f"{base.path.rstrip('/')}/{address.netloc}{address.path}", query=address.query).geturl()


def redirected(url: str, address: str, location: str) -> str:
    try:
        # HTTP headers are read as Latin-1; these are the bytes that the server meant.
        return web_address(urljoin(address, quote(location, safe=string.punctuation, encoding="latin-1"))).geturl()
    except (ValueError, DataError):
        shown = without_password(location.partition("?")[0])  # a query may hold a secret
        raise DataError(f"{url}: redirected to {shown!a}, which is no http or https address; {BY_HAND}") from None


def base_name(url: str) -> str:
    """The last part of an address, fit for a file name. Of a long one, the end: that is where extensions are."""
    name = re.sub(r"[^\w.,+=@-]", "_", unquote(PurePosixPath(web_address(url).path).name))
    return name.encode()[-MAX_NAME_BYTES:].decode(errors="ignore") or "file"


def place(url: str, address: str) -> str:
    """How messages name a file, and where it was asked for if that is elsewhere; a query may hold a secret."""
    if address == web_address(url).geturl():
        return url
    return f"{url} (at {urlsplit(address)._replace(query='').geturl()})"
