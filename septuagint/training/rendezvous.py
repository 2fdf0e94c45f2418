"""The rendezvous: processes that know little of each other become one world, or say what stands in the way.

1. One of them keeps a store, torch's TCPStore; the others find it and say hello: where they run, and as which rank.
2. When all are there, each has the list of all, and a word that only this meeting knows. A store may be an old one:
   torchrun keeps its own over restarts.
3. Hosts talk through the network interface that routes from one to the other, and process groups are made.
"""

import datetime
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from septuagint.errors import UserError
from septuagint.training.launcher import Place
from septuagint.training.precision import choose_device
from septuagint.world import World

# What goes wrong here is named within a minute.
MEETING_SECONDS = 50.0
_CONNECT_SECONDS = 5.0
_RESOLVE_SECONDS = 10.0
_POLL_SECONDS = 0.05
_BRIDGES = ("lo", "docker", "br-", "virbr", "cni", "flannel", "cali", "podman", "lxcbr", "lxdbr")
_OPERATION_SECONDS = 20.0
_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_INVITATION, _OVER = "invitation", "over"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """Where ranks leave word for each other while they train."""

    address: str
    port: int
    word: str

    def connect(self) -> Store:
        """A connection of one's own: calls on one wait for each other."""
        store = TCPStore(self.address, self.port, is_master=False, timeout=_seconds(_OPERATION_SECONDS))
        return PrefixStore(self.word, store)


@contextmanager
def join_world(
    place: Place, *, timeout: datetime.timedelta, interface: str | None = None
) -> Iterator[tuple[World, Meeting | None]]:
    """The world of a process, as long as the block lasts. `timeout` is for every exchange in it.

    A world that an error ends is not taken apart: the others may be gone, and would be waited for.
    """
    if interface is not None:
        _check_interface(interface)
    if place.size == 1:
        yield World(launcher=place.launcher, hosts=(socket.gethostname(),), device=choose_device()), None
        return
    address, store = _open_store(place)
    word, hellos = _meet(store, place, address)
    local_ranks = [index for index, hello in enumerate(hellos) if _host(hello) == _host(hellos[place.rank])]
    local_rank = local_ranks.index(place.rank) if place.local_rank is None else place.local_rank
    chosen = interface or _named_interface() or _find_interface(hellos, place.rank, address)
    for variable in _INTERFACE_VARIABLES:
        if interface is not None or variable not in os.environ:
            os.environ[variable] = chosen
    device = choose_device(local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")
    with _failing_as(f"the ranks cannot reach each other through the interface {chosen}; name another: --interface"):
        # The first group is there to find out, within a minute, whether all can talk to all.
        dist.init_process_group(
            "gloo",
            store=PrefixStore(f"{word}/group", store),
            rank=place.rank,
            world_size=place.size,
            timeout=_seconds(MEETING_SECONDS),
        )
        world = World(
            rank=place.rank,
            size=place.size,
            local_rank=local_rank,
            local_size=len(local_ranks),
            hosts=tuple(hello["host"] for hello in hellos),
            launcher=place.launcher,
            interface=chosen,
            device=device,
        )
        group = _make_group(world, timeout)
    yield replace(world, group=group), Meeting(address=address, port=place.port, word=word)
    dist.destroy_process_group()


def _seconds(seconds: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=seconds)


def _open_store(place: Place) -> tuple[str, TCPStore]:
    """The address that answers, and the store there."""
    if place.is_keeper:
        try:
            kept = TCPStore(
                "localhost",
                place.port,
                is_master=True,
                wait_for_workers=False,
                timeout=_seconds(MEETING_SECONDS),
            )
        except RuntimeError as error:  # torch has no class of its own for it
            if "EADDRINUSE" not in str(error) and "already in use" not in str(error):
                raise
            raise UserError(
                f"port {place.port} of {socket.gethostname()}, where the ranks are to meet, is in use by another "
                f"program; set MASTER_PORT to a free one for all ranks ({_how_to_pass(place, 'MASTER_PORT=<port>')})"
            ) from None
        return "localhost", kept
    address = _find_listener(place)
    return address, TCPStore(address, place.port, is_master=False, timeout=_seconds(MEETING_SECONDS))


def _how_to_pass(place: Place, setting: str) -> str:
    name, _, value = setting.partition("=")
    return {
        "openmpi": f"mpirun -x {setting}",
        "mpich": f"mpiexec -genv {name} {value}",
        "slurm": f"export {setting} before srun",
        "torchrun": "torchrun --rdzv-endpoint=<host>:<port>",
    }.get(place.launcher, f"export {setting}")


def _find_listener(place: Place) -> str:
    """Waits for the one who keeps the store; what it says when nobody answers is the whole help there is."""
    deadline = time.monotonic() + MEETING_SECONDS
    problems: dict[str, str] = {}
    while time.monotonic() < deadline:
        for address in place.addresses:
            try:
                with socket.create_connection((address, place.port), timeout=_CONNECT_SECONDS):
                    return address
            except socket.gaierror:
                problems[address] = "its name cannot be resolved"
            except TimeoutError:
                problems[address] = "it does not answer"
            except OSError as error:
                problems[address] = (error.strerror or str(error)).lower()
        is_named_wrong = set(problems.values()) == {"its name cannot be resolved"}
        if is_named_wrong and time.monotonic() > deadline - MEETING_SECONDS + _RESOLVE_SECONDS:
            break
        time.sleep(0.2)
    tried = "; ".join(f"{address}: {problem}" for address, problem in problems.items())
    if "its name cannot be resolved" in problems.values():
        cure = f"use an address, or a name that {socket.gethostname()} knows (/etc/hosts)"
    elif "connection refused" in problems.values():
        cure = "is rank 0 running there, and did it say why not?"
    else:
        cure = "is the host up, and do firewalls let its ports through between the machines?"
    raise UserError(
        f"rank {place.rank} on {socket.gethostname()} cannot reach the meeting place, port {place.port} ({tried}); "
        f"{cure} The host is set with {_how_to_pass(place, 'MASTER_ADDR=<host of rank 0>')}"
    )


def _meet(store: TCPStore, place: Place, address: str) -> tuple[str, list[dict[str, Any]]]:
    """(a word for this meeting, what every rank said of itself). Rank 0 leads; the store may hold old words."""
    own: dict[str, Any] = {
        "nonce": secrets.token_hex(8),
        "host": socket.gethostname(),
        "boot": boot_id(),
        "pid": os.getpid(),
        "address": None if address in ("localhost", "127.0.0.1") else _address_towards(address),
    }
    try:
        store.set(f"hello/{place.rank}", json.dumps(own))
        if place.rank == 0:
            hellos = _lead(store, place, own["nonce"])
            store.set(_list_key(own["nonce"]), json.dumps(hellos))
            store.set(_OVER, own["nonce"])
            return own["nonce"], hellos
        return _follow(store, place, own["nonce"])
    except dist.DistError:
        raise UserError(
            f"rank {place.rank} on {socket.gethostname()} was at the meeting place, {address}:{place.port}, when rank "
            "0 left; see what it says"
        ) from None


def _list_key(word: str) -> str:
    return f"list/{word}"


def _follow(store: TCPStore, place: Place, nonce: str) -> tuple[str, list[dict[str, Any]]]:
    """Waits to be invited, and then for the list of all."""
    word = None
    deadline = time.monotonic() + MEETING_SECONDS
    while word is None and time.monotonic() < deadline:
        if store.check([_INVITATION]):
            invitation = json.loads(store.get(_INVITATION))
            word = invitation["word"] if nonce in invitation["nonces"] else None
        # A store of torchrun's own may tell of an earlier meeting.
        if word is None and place.launcher != "torchrun" and store.check([_OVER]):
            word = store.get(_OVER).decode()
        time.sleep(_POLL_SECONDS)
    if word is None:
        raise UserError(
            f"rank {place.rank} on {socket.gethostname()} found the meeting place, port {place.port}, but rank 0 did "
            f"not come within {MEETING_SECONDS:.0f} s; see what it says"
        )
    store.set(f"accepted/{word}/{place.rank}", nonce)
    while not store.check([_list_key(word)]) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if not store.check([_list_key(word)]):
        raise UserError(f"rank {place.rank} on {socket.gethostname()} waited for others in vain; see what rank 0 says")
    hellos: list[dict[str, Any]] = json.loads(store.get(_list_key(word)))
    if hellos[place.rank]["nonce"] != nonce:
        other = hellos[place.rank]
        raise UserError(
            f"rank {place.rank} was started twice: as process {other['pid']} on {other['host']} and as process "
            f"{os.getpid()} on {socket.gethostname()}, which leaves; give every process a rank of its own"
        )
    return word, hellos


def _lead(store: TCPStore, place: Place, word: str) -> list[dict[str, Any]]:
    """Invites until every rank has accepted: an old hello in the store is followed by a new one."""
    deadline = time.monotonic() + MEETING_SECONDS
    ranks = range(place.size)
    seen: dict[int, dict[int, str]] = {rank: {} for rank in ranks}  # processes that said hello, by rank
    while time.monotonic() < deadline:
        known = {rank: store.get(f"hello/{rank}").decode() for rank in ranks if store.check([f"hello/{rank}"])}
        for rank, text in known.items():
            said = json.loads(text)
            seen[rank].setdefault(said["pid"], said["host"])
        nonces = {rank: json.loads(text)["nonce"] for rank, text in known.items()}
        store.set(_INVITATION, json.dumps({"word": word, "nonces": sorted(nonces.values())}))
        accepted = {
            rank: store.get(key).decode() for rank in ranks if rank and store.check([key := f"accepted/{word}/{rank}"])
        }
        if len(accepted) == place.size - 1 and all(nonces[rank] == nonce for rank, nonce in accepted.items()):
            return [json.loads(known[rank]) for rank in ranks]
        time.sleep(_POLL_SECONDS)
    twice = [rank for rank in ranks if len(seen[rank]) > 1 and place.launcher != "torchrun"]
    if twice:
        where = " and ".join(f"process {pid} on {host}" for pid, host in seen[twice[0]].items())
        raise UserError(f"rank {twice[0]} was started twice: {where}; give every process a rank of its own")
    missing = ", ".join(str(rank) for rank in ranks if rank and rank not in accepted)
    raise UserError(
        f"of {place.size} ranks, these did not come within {MEETING_SECONDS:.0f} s: {missing}; see what they say, and "
        f"that their machines reach port {place.port} of {socket.gethostname()}"
    )


def boot_id() -> str:
    """Tells machines of the same name apart; containers of one machine have names of their own."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _host(hello: dict[str, Any]) -> tuple[str, str]:
    return hello["host"], hello["boot"]


def _address_towards(address: str) -> str | None:
    """This machine's address on the way to another one. Nothing is sent."""
    try:
        family, *_, target = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _make_group(world: World, timeout: datetime.timedelta) -> dist.ProcessGroup:
    """NCCL where every rank has a GPU of its own; it refuses two ranks on one, which Gloo does not."""
    own = None
    if world.device.type == "cuda":
        own = str(torch.cuda.get_device_properties(world.device).uuid)
    gpus = world.gather(own)
    backend = "gloo"
    if None not in gpus and len(set(gpus)) == world.size:
        # NCCL would end the process without a word: `watch` has a minute to find out who is missing, and says so.
        backend, timeout = "cpu:gloo,cuda:nccl", timeout + _seconds(60)
    group: dist.ProcessGroup = dist.new_group(backend=backend, timeout=timeout)
    return group


def _named_interface() -> str | None:
    """What the user exported for the libraries counts for us, too. NCCL's may be a pattern, which is NCCL's alone."""
    for variable in _INTERFACE_VARIABLES:
        name = os.environ.get(variable, "")
        if variable.startswith("GLOO") and name and "," not in name:
            _check_interface(name)
        if name in psutil.net_if_addrs():
            return name
    return None


def _check_interface(name: str) -> None:
    there = psutil.net_if_addrs()
    if name not in there:
        raise UserError(
            f"{socket.gethostname()} has no network interface {name!r}; it has {', '.join(sorted(there))}. "
            "Name one of them with --interface, or none to have it chosen"
        )


def _find_interface(hellos: list[dict[str, Any]], rank: int, address: str) -> str:
    """The interface on the way to the meeting place, or, at the meeting place itself, on the way to the others."""
    own = hellos[rank]
    others = [hello["address"] for hello in hellos if _host(hello) != _host(own)]
    if not others:
        return _loopback()  # all ranks are here: nothing leaves the machine
    candidates = [own["address"], *(_address_towards(other) for other in others if other is not None)]
    for candidate in candidates:
        name = None if candidate is None else _interface_of(candidate)
        if name is not None and not name.startswith(_BRIDGES):
            return name
    found = ", ".join(sorted({str(_interface_of(candidate)) for candidate in candidates if candidate}))
    raise UserError(
        f"the way from {socket.gethostname()} to the other hosts leads through {found or 'no interface'}, which is "
        f"loopback or a container's bridge; set MASTER_ADDR to an address of {address} in the network between the "
        "machines, or name the interface with --interface"
    )


def _loopback() -> str:
    return _interface_of("127.0.0.1") or "lo"


def _interface_of(address: str) -> str | None:
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in addresses):
            return str(name)
    return None


@contextmanager
def _failing_as(message: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise UserError(f"{message} (torch says: {str(error).splitlines()[0][:200]})") from error
