"""Sentences of similar length, side by side."""

from collections.abc import Iterator, Sequence


def batches_of_similar_length(lengths: Sequence[int], num_tokens: int) -> Iterator[list[int]]:
    """Rows whose sentences, padded to what the longest takes, have at most so many tokens; a longer one is alone.

    The longest come first: if memory is short, it is short at once, and the last batches are short work, so that all
    who share it end together.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > num_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
