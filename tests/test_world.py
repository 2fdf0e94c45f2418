"""What ranks say to each other arrives, whole and in order; a world of one says it to itself."""

from typing import Any

import torch

from septuagint.training.watch import Watch
from septuagint.world import CHUNK_BYTES, World
from tests.ranks import in_ranks


def talk(world: World, watch: Watch) -> dict[str, Any]:
    total = torch.tensor([world.rank + 1.0, 10.0], dtype=torch.float64)
    world.sum(total).wait()
    large = bytes([7]) * (CHUNK_BYTES + 3) if world.rank == 1 else b""
    return {
        "sum": total.tolist(),
        "gathered": world.gather({"rank": world.rank, "text": "ü" * world.rank}),
        "bytes": world.gather_bytes(b"x" * world.rank),
        "told": world.broadcast([world.rank, None, 1.5], source=1),
        "large": world.broadcast_bytes(large, 1) == bytes([7]) * (CHUNK_BYTES + 3),
        "nothing": world.broadcast_bytes(b"", 0),
        "any": [world.any(world.rank == 2), world.any(False)],
        "leader": world.is_leader,
        "local": (world.local_rank, world.local_size),
    }


def test_three_ranks_talk():
    found = in_ranks(3, talk)
    for rank, said in enumerate(found):
        assert said == {
            "sum": [6.0, 30.0],
            "gathered": [{"rank": other, "text": "ü" * other} for other in range(3)],
            "bytes": [b"", b"x", b"xx"],
            "told": [1, None, 1.5],
            "large": True,
            "nothing": b"",
            "any": [True, False],
            "leader": rank == 0,
            "local": (rank, 3),
        }


def test_a_world_of_one_talks_to_itself():
    world, values = World(), torch.tensor([1.0, 2.0])
    world.sum(values).wait()
    assert values.tolist() == [1.0, 2.0]
    assert world.gather("x") == ["x"] and world.gather_bytes(b"x") == [b"x"]
    assert world.broadcast({"a": 1}) == {"a": 1} and world.any(True) and not world.any(False)
