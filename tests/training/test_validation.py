"""Which validation is the best, and since when there has been none better."""

import dataclasses

from septuagint.inference.scoring import Score
from septuagint.training.checkpoint import checkpoint_path
from septuagint.training.validation import Validation, best_of, num_without_better, with_weights


def validation(step: int, bleu: float, loss: float = 1.0, weights: str = "current") -> Validation:
    scores = Score(bleu=bleu, chrf=2 * bleu, bleu_signature="", chrf_signature="", num_lines=1)
    return Validation(
        step=step, weights=weights, valid_loss=loss, train_sample_loss=loss, scores=scores, scores_of_sets={}
    )


def test_more_is_better_and_of_equals_the_lower_loss():
    found = [validation(1, 10.0), validation(2, 30.0, 2.0), validation(3, 30.0, 1.5), validation(4, 20.0)]
    assert best_of(found, "bleu") == found[2]
    assert best_of(found, "loss") == found[0]
    assert best_of([], "bleu") is None
    assert num_without_better(found, "bleu") == 1
    assert num_without_better(found, "loss") == 3


def test_weights_that_were_never_written_are_not_the_best(tmp_path):
    found = [validation(1, 10.0), validation(2, 30.0), validation(2, 40.0, weights="average of 2 checkpoints")]
    checkpoint_path(tmp_path, 1).mkdir(parents=True)
    assert with_weights(tmp_path, found) == found[:1]
    checkpoint_path(tmp_path, "averaged").mkdir()
    assert best_of(with_weights(tmp_path, found), "bleu") == found[2]
    assert dataclasses.replace(found[2], weights="ema").is_average is False
