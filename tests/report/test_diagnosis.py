"""Each verdict turns when its cause is planted, and not without it; and no record, however bad, makes one fail."""

import json
from functools import partial
from pathlib import Path

import pytest

from septuagint.report.answer import Answer
from septuagint.report.diagnosis.diagnose import diagnose
from septuagint.report.reading.record import read_record
from tests.report.records import CORPORA, Life, Plan, edit_events, write_run

IDS = (
    "duration fully_trained overfitting gpus_used network_bottleneck learning_rate training_set checkpoint_files "
    "checkpoint_size step_time step_time_and_traffic bottleneck incidents"
).split()
HOSTS = ("alpha", "beta")
BALANCED = {"compute": 0.2, "communication": 0.01, "optimizer": 0.02}


def diagnosed(run: Path) -> dict[str, Answer]:
    return {answer.id: answer for answer in diagnose(read_record(run))}


def answers(run: Path, plan: Plan) -> dict[str, Answer]:
    return diagnosed(write_run(run, plan))


def value(answer: Answer, name: str) -> object:
    return next(figure.value for figure in answer.evidence if figure.name == name)


def test_questions_come_in_their_order(tmp_path):
    found = diagnose(read_record(write_run(tmp_path)))
    assert [answer.id for answer in found] == IDS
    for answer in found:
        assert answer.question.endswith("?") and answer.sentence.endswith(".") and answer.would_change.endswith(".")
        assert answer.confidence in ("high", "medium", "low")


# What was planted, the question, the verdict with it; the control is the same without.
PLANTED = {
    "a slow link": (
        Plan(hosts=HOSTS, parts={**BALANCED, "communication": 0.6}, sent_bytes=40e6),
        {"network_bottleneck": "yes", "bottleneck": "network", "gpus_used": "no"},
    ),
    "a slower link than one would like": (
        Plan(hosts=HOSTS, parts={**BALANCED, "communication": 0.045}, sent_bytes=40e6),
        {"network_bottleneck": "partly", "bottleneck": "compute"},
    ),
    "a slow rank": (
        Plan(
            hosts=HOSTS,
            parts={**BALANCED, "straggler_wait": 0.15},
            parts_of_rank={1: {"compute": 0.35, "straggler_wait": 0.0}},
            sent_bytes=40e6,
        ),
        {"bottleneck": "slow_rank", "network_bottleneck": "no", "incidents": "1 incident"},
    ),
    "a starved loader": (
        Plan(hosts=HOSTS, parts={**BALANCED, "data_wait": 0.2}, sent_bytes=40e6),
        {"bottleneck": "data", "network_bottleneck": "no"},
    ),
    "a slow disk": (
        Plan(hosts=HOSTS, parts=BALANCED, checkpoint_every=50, checkpoint_wait_seconds=6, sent_bytes=40e6),
        {"bottleneck": "checkpoints", "network_bottleneck": "no"},
    ),
    "validation too often": (
        Plan(
            hosts=HOSTS,
            parts=BALANCED,
            sent_bytes=40e6,
            validation_seconds=12,
            validations=dict.fromkeys(range(50, 1001, 50), (3.0, 3.0, 20.0)),
        ),
        {"bottleneck": "validation", "network_bottleneck": "no"},
    ),
}


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named(cause, tmp_path):
    plan, verdicts = PLANTED[cause]
    found = answers(tmp_path, plan)
    assert {id: found[id].verdict for id in verdicts} == verdicts


def test_without_a_cause_none_is_named(tmp_path):
    found = answers(tmp_path, Plan(hosts=HOSTS, parts=BALANCED, sent_bytes=40e6))
    assert found["bottleneck"].verdict == "compute"
    assert found["network_bottleneck"].verdict == "no"
    assert found["incidents"].verdict == "none"


def test_bf16_is_advised_where_processors_have_it_and_a_run_that_computes_does_not_use_it(tmp_path):
    def advice(name, **settings):
        return answers(tmp_path / name, Plan(hosts=HOSTS, parts=BALANCED, sent_bytes=40e6, **settings))[
            "bottleneck"
        ].would_change

    assert 'precision = "bf16"' in advice("unused", cpu_has_bf16=True)
    assert "bf16" not in advice("not there")
    assert "bf16" not in advice("used", cpu_has_bf16=True, precision="bf16")
    assert "bf16" not in advice("GPU", cpu_has_bf16=True, device="Tesla T4")
    assert "bf16" not in advice("not known", cpu_has_bf16=None)


def test_a_slow_rank_is_named_with_its_host_and_what_takes_it_longer(tmp_path):
    for part, words in (("compute", "its compute takes longer"), ("data_wait", "it waits longer for data")):
        slow = {part: BALANCED.get(part, 0.0) + 0.2, "straggler_wait": 0.0}
        plan = Plan(hosts=HOSTS, parts={**BALANCED, "straggler_wait": 0.2}, parts_of_rank={1: slow})
        answer = answers(tmp_path / part, plan)["bottleneck"]
        assert answer.verdict == "slow_rank"
        assert "for rank 1 on host beta" in answer.sentence and words in answer.sentence
        assert value(answer, "gain") == pytest.approx(0.431 / 0.231, rel=0.05)


def test_a_slow_host_is_named_where_all_its_ranks_are_slow(tmp_path):
    slow = {"compute": 0.4, "straggler_wait": 0.0}
    plan = Plan(hosts=HOSTS, ranks_per_host=2, parts={**BALANCED, "straggler_wait": 0.2}, noise=0.0)
    run = write_run(tmp_path, Plan(**{**vars(plan), "parts_of_rank": {2: slow, 3: slow}}))

    def come_last_by_turns(event):
        if event["event"] == "steps":
            event["straggler_wait"] = [0.001 * (place % 2) for place in range(len(event["wall"]))]

    edit_events(run, come_last_by_turns, rank=2)
    answer = diagnosed(run)["bottleneck"]
    assert answer.verdict == "slow_rank" and "for host beta" in answer.sentence


def test_ranks_that_are_late_by_turns_are_no_slow_rank(tmp_path):
    run = write_run(tmp_path, Plan(hosts=HOSTS, parts={**BALANCED, "straggler_wait": 0.1}, noise=0.0))

    def come_last_by_turns(event, rank):
        if event["event"] == "steps":
            is_last = [place % 2 == rank for place in range(len(event["wall"]))]
            event["straggler_wait"] = [0.0 if last else 0.1 for last in is_last]
            event["compute"] = [0.3 if last else 0.2 for last in is_last]

    for rank in (0, 1):
        edit_events(run, partial(come_last_by_turns, rank=rank), rank)
    answer = diagnosed(run)["bottleneck"]
    assert answer.verdict == "compute"
    assert value(answer, "compute_share") == pytest.approx(100 * 0.32 / 0.331, rel=0.02)


def test_the_reference_run_gets_its_truth(tmp_path):
    """Two hosts with two V100 each on 1 Gbit/s: 1.75 s a step, GPUs at 100%, and the network has nearly all of it."""
    plan = Plan(
        hosts=HOSTS,
        ranks_per_host=2,
        parts={"compute": 0.165, "communication": 1.56, "optimizer": 0.01},
        sent_bytes=183e6,
        gradient_bytes=122_000_000,
        link_bytes_per_second=117e6,
        device="Tesla V100",
        num_gpus=2,
        gpu={"utilisation_percent": 100},
        peak_flops_per_second=1e14,
    )
    found = answers(tmp_path, plan)
    network, gpus, step = found["network_bottleneck"], found["gpus_used"], found["step_time"]
    assert network.verdict == "yes" and value(network, "communication_share") > 85
    assert value(network, "speed_up") == pytest.approx(1.736 / 0.176, rel=0.05)
    assert value(network, "expected_bytes_per_step") == 183e6
    assert gpus.question == "Were the GPUs fully used?" and gpus.verdict == "no"
    assert "nvidia-smi shows 100%" in gpus.sentence and "waits for the network" in gpus.sentence
    assert step.verdict == "1.73 s" and "steps a minute" in step.sentence
    assert found["bottleneck"].verdict == "network"
    assert "depends on the step alone, not on the loss" in found["learning_rate"].sentence


def test_a_port_at_a_tenth_of_its_speed_is_told_loudly(tmp_path):
    slow = Plan(hosts=HOSTS, parts={**BALANCED, "communication": 5.0}, sent_bytes=40e6, link_bytes_per_second=11.7e6)
    assert "CHECK THE LINK" in answers(tmp_path / "limited", slow)["network_bottleneck"].sentence
    set_wrong = Plan(**{**vars(slow), "stated_bits_per_second": 1e8})
    assert "CHECK THE PORT" in answers(tmp_path / "port", set_wrong)["network_bottleneck"].sentence
    fine = Plan(hosts=HOSTS, parts=BALANCED, sent_bytes=40e6, stated_bits_per_second=1e10)
    assert "CHECK" not in answers(tmp_path / "fine", fine)["network_bottleneck"].sentence


def test_bytes_that_cannot_be_the_gradients_are_noticed(tmp_path):
    """One of the five read 3.5 MB/s, which cannot carry what was exchanged."""
    plan = Plan(hosts=HOSTS, parts=BALANCED, sent_bytes=7e6)
    assert "the gradients go another way" in answers(tmp_path, plan)["network_bottleneck"].sentence


def test_one_host_has_no_network(tmp_path):
    alone = answers(tmp_path / "alone", Plan())
    assert alone["network_bottleneck"].verdict == "no" and alone["step_time_and_traffic"].verdict == "no traffic"
    pair = answers(tmp_path / "pair", Plan(ranks_per_host=2, parts={**BALANCED, "communication": 0.3}))
    assert pair["network_bottleneck"].verdict == "no" and "nothing leaves" in pair["network_bottleneck"].sentence
    assert pair["bottleneck"].verdict == "none" and "exchange between the ranks" in pair["bottleneck"].sentence


def test_a_killed_run_tells_its_price_and_what_was_done_again(tmp_path):
    lives = (Life(last_step=650, stop=None), Life(start_step=500, pause_seconds=600))
    plan = Plan(lives=lives, price_per_hour=36.0)
    found = answers(tmp_path, plan)
    duration = found["duration"]
    assert value(duration, "num_attempts") == 2 and value(duration, "num_steps") == 1000
    assert value(duration, "paused_seconds") == pytest.approx(600, abs=1)
    assert value(duration, "num_lost_steps") == 150
    assert value(duration, "lost_seconds") == pytest.approx(150 * 0.223, rel=0.02)
    held = 1150 * 0.223 + 10
    assert value(duration, "cost") == pytest.approx(held * 36 / 3600, rel=0.02)
    assert value(duration, "effective_share") == pytest.approx(100 * 223 / (held + 600), rel=0.02)
    assert (
        found["incidents"].verdict == "1 incident" and "attempt 1 was killed at step 650" in found["incidents"].sentence
    )


def test_going_on_with_more_steps_is_no_incident(tmp_path):
    lives = (Life(last_step=500), Life(start_step=500, pause_seconds=600))
    assert answers(tmp_path, Plan(lives=lives))["incidents"].verdict == "none"


def test_energy_is_counted_where_it_is_known(tmp_path):
    plan = Plan(device="Tesla V100", num_gpus=2)
    duration = answers(tmp_path / "gpus", plan)["duration"]
    assert value(duration, "energy_kilowatt_hours") == pytest.approx(2 * 250 * 223 / 3.6e6, rel=0.02)
    assert "kWh" not in answers(tmp_path / "none", Plan())["duration"].sentence


def test_a_stop_that_somebody_asked_for_is_told_and_is_no_incident(tmp_path):
    lives = (Life(last_step=300, stop="signal"), Life(start_step=300))
    answer = answers(tmp_path, Plan(lives=lives))["incidents"]
    assert answer.verdict == "none"
    assert answer.sentence.endswith("; 1 attempt stopped when asked to, and saved first (at step 300).")


def test_incidents_are_counted_and_named(tmp_path):
    warnings = ["checkpoints/step-00000500: model.safetensors is damaged; passed over, going on from step 0"]
    plan = Plan(skipped=[100], warnings=warnings, num_gpus=1, gpu={"throttle_reasons": ["thermal"]})
    sentence = answers(tmp_path, plan)["incidents"].sentence
    for words in ("1 step skipped", "a checkpoint was damaged", "GPU 0 of alpha (thermal in 100% of the samples)"):
        assert words in sentence
    benign = Plan(num_gpus=1, gpu={"throttle_reasons": ["power cap"]})
    assert answers(tmp_path / "benign", benign)["incidents"].verdict == "none"


def test_traffic_that_varies_correlates_and_constant_traffic_says_so(tmp_path):
    wire = {**BALANCED, "communication": 0.5}
    varying = Plan(hosts=HOSTS, parts=wire, sent_bytes=lambda seconds: seconds * 80e6, noise=0.2)
    answer = answers(tmp_path / "varying", varying)["step_time_and_traffic"]
    assert "strong" in answer.verdict and value(answer, "pearson") > 0.8
    constant = Plan(hosts=HOSTS, parts=wire, sent_bytes=40e6, noise=0.2)
    answer = answers(tmp_path / "constant", constant)["step_time_and_traffic"]
    assert answer.verdict == "constant traffic" and value(answer, "pearson_communication") > 0.8


def test_sizes_are_added_up(tmp_path):
    found = answers(tmp_path, Plan())
    assert found["training_set"].verdict == "250 MB, 950,000 pairs"
    assert value(found["training_set"], "dropped_duplicate") == CORPORA[0]["dropped"]["duplicate"]
    assert found["checkpoint_size"].verdict == "732 MB"
    assert value(found["checkpoint_size"], "bytes_per_parameter") == pytest.approx(12, rel=1e-3)
    assert "optimizer.safetensors (488 MB" in found["checkpoint_files"].sentence


def test_the_learning_rate_has_the_formula_with_the_runs_numbers(tmp_path):
    answer = answers(tmp_path, Plan())["learning_rate"]
    assert value(answer, "formula") == "2.0 · 512^-0.5 · min(step^-0.5, step · 400^-1.5)"
    assert answer.verdict == "peak 0.004419 at step 400" and answer.confidence == "high"
    assert value(answer, "largest_deviation") < 1e-6


def test_attempts_under_other_conditions_are_told_apart(tmp_path):
    run = write_run(tmp_path, Plan(lives=(Life(last_step=500), Life(start_step=500))))

    def slow_down(event):
        if event["event"] == "steps" and event["attempt"] == 1:
            event["wall"] = [30.0] * len(event["wall"])

    edit_events(run, slow_down)
    step_time = diagnosed(run)["step_time"]
    assert "30 s in attempt 1" in step_time.sentence and "attempt 2" in step_time.sentence


def test_compiling_is_told_beside_the_start(tmp_path):
    run = write_run(tmp_path / "compiled", Plan(hosts=HOSTS))
    for rank, seconds in enumerate((9.0, 11.5)):
        with (run / f"events/rank-{rank}.jsonl").open("a") as file:
            event = {"time": 1e9, "event": "rehearsal", "attempt": 1, "seconds": seconds, "is_compiled": True}
            file.write(json.dumps(event) + "\n")
    assert value(diagnosed(run)["duration"], "rehearsal_seconds") == 11.5
    assert value(answers(tmp_path / "plain", Plan())["duration"], "rehearsal_seconds") == 0.0


def test_an_older_record_is_answered_as_far_as_it_goes(tmp_path):
    found = answers(tmp_path / "plain", Plan(has_steps=False))
    assert found["bottleneck"].verdict == "none" and found["gpus_used"].verdict == "unknown"
    assert found["step_time"].verdict == "0.22 s"
    starved = Plan(has_steps=False, parts={"compute": 0.1, "data_wait": 0.1})
    assert answers(tmp_path / "starved", starved)["bottleneck"].verdict == "data"


@pytest.mark.parametrize(("is_compiled", "verdict"), [(True, "compute"), (False, "validation")])
def test_what_the_first_validation_takes_to_compile_is_part_of_the_start(tmp_path, is_compiled, verdict):
    run = write_run(tmp_path, Plan(validations=dict.fromkeys(range(100, 1001, 100), (3.0, 3.0, 20.0))))

    def compile_first(event):
        if event["event"] == "attempt":
            event["is_compiled"] = is_compiled
        elif event["event"] == "validation" and event["step"] == 100:
            event["seconds"] += 120
        elif event["event"] == "steps" and event["step"] == 200:  # what lies before it
            event["outside_seconds"]["validation"] = event["outside_seconds"].get("validation", 0) + 120

    edit_events(run, compile_first)
    assert diagnosed(run)["bottleneck"].verdict == verdict
