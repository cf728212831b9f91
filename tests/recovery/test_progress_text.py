"""Steps in the lines of the common trainers, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.progress.text import Line, last_of, said

STEPS = {
    "Megatron-LM": (
        " iteration    43680/  311541 | consumed samples:     25709904 | elapsed time per iteration (ms): 25593.4 | lm loss: 2.635663E+00 |",
        43680,
        25.5934,
    ),
    "older Megatron": ("[default7]: iteration 45000/ 115311 | elapsed time per iteration (s): 111.00 |", 45000, 111.0),
    "NeMo": (
        "Training epoch 0, iteration 9/99 | lr: 1.5e-06 | global_step: 109 | reduced_train_loss: 10.4 | train_step_timing in s: 5.2",
        109,
        5.2,
    ),
    "DeepSpeed pipeline": ("steps: 30 loss: 4.3211 iter time (s): 1.234 samples/sec: 830.1", 30, 1.234),
    "DeepSpeed": (
        "[2026-05-16 16:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=0, lr=[1e-05]",
        30,
        None,
    ),
    "torchtitan": (
        "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  grad_norm:  0.8319",
        14,
        None,
    ),
    "MaxText": ("completed step: 12, seconds: 1.234, TFLOP/s/device: 130.1, loss: 3.1", 12, 1.234),
    "Composer": ("[batch=12/4800]:", 12, None),
    "ms-swift": ("{'loss': 1.2, 'grad_norm': 0.5, 'global_step/max_steps': '35/500', 'percentage': '7%'}", 35, None),
    "fairseq": ("| INFO | train_inner | epoch 001:    100 / 2000 loss=9.1, num_updates=100, lr=1e-05", 100, None),
    "verl": ("step:7 - actor/entropy_loss:0.3 - perf/throughput:312", 7, None),
    "nanoGPT": ("iter 250: loss 3.1415, time 130.10ms, mfu 40.02%", 250, 0.1301),
    "litgpt": ("iter 40 step 10: loss 2.1234, iter time: 101.2ms", 10, 0.1012),
    "Hugging Face Trainer, Axolotl": ("  2%|#         | 120/5004 [01:10<47:30,  2.00it/s]", 120, 0.5),
    "Lightning": ("Epoch 2:   6%|6         | 30/500 [00:31<08:10,  1.04s/it, v_num=3]", 1030, 1.04),
    "ours": ("12:00:01 inquest: step=1200 ckpt=1000 coll=88123 sec=2.31 rank=3", 1200, 2.31),
}


@pytest.mark.parametrize("trainer", STEPS)
def test_a_step_line_of(trainer: str) -> None:
    line, step, seconds = STEPS[trainer]
    found = said(line)
    assert found is not None and found.step == step
    assert found.step_seconds == (pytest.approx(seconds) if seconds else None)


@pytest.mark.parametrize(
    "line",
    [
        "training for 300 iterations",
        "Loading checkpoint shards:  50%|#####     | 2/4 [00:10<00:10,  5.00s/it]",
        "Evaluating:  10%|#         | 10/100 [00:10<01:30,  1.00it/s]",
        "Map:  10%|#         | 100/1000 [00:10<01:30, 10.00it/s]",
        "inquest: step=minus",
        "inquest: step=99999999999999999999999",
        "saved checkpoint of nobody knows which step",
        "WARN NCCL step 3 of 7",
    ],
)
def test_no_step_is_read_from(line: str) -> None:
    found = said(line)
    assert found is None or found.step is None


@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                ["inquest: ", "step=", "ckpt=", "iteration ", "12", "/", " | ", "9" * 30, " [00:01<?, ", "2.0it/s]"]
            ),
        ),
        max_size=8,
    ).map("".join)
)
@settings(max_examples=150, deadline=None)
def test_whatever_a_line_is_it_gives_numbers_that_can_be_stored_or_none(line: str) -> None:
    for found, _ in last_of([Line(line)]):
        for number in (found.step, found.checkpoint_step, found.collective):
            assert number is None or 0 <= number < 2**53
        assert found.step_seconds is None or 0 < found.step_seconds <= 7 * 86_400
        assert len(found.phase or "") <= 64 and len(found.node) <= 255


def test_checkpoints_and_pauses_are_read() -> None:
    saved = said("  successfully saved checkpoint at iteration   33241 to /scratch/checkpoints")
    assert saved is not None and saved.checkpoint_step == 33241
    folder = said("[Torch] Saved out/global_step500/mp_rank_00_model_states.pt.")
    assert folder is not None and folder.checkpoint_step == 500
    saving = said("saving checkpoint at iteration   33241 to /scratch/checkpoints")
    assert saving is not None and saving.phase == "checkpoint" and saving.checkpoint_step is None


def test_the_last_of_each_thing_stands_for_each_rank_and_a_step_ends_a_pause() -> None:
    lines = [
        Line("inquest: step=10 rank=0", at=1.0),
        Line("inquest: step=9 rank=1", at=2.0, node="n2"),
        Line("successfully saved checkpoint at iteration 10 to /x", at=3.0),
        Line("*** Running Evaluation ***", at=4.0),
        Line("inquest: step=11 rank=0", at=5.0),
        Line("  2%|#  | 120/5004 [01:10<47:30,  2.00it/s]", at=6.0),
    ]
    found = {one.rank: (one, at) for one, at in last_of(lines)}
    assert (found[0][0].step, found[0][1], found[1][0].step, found[1][0].node) == (11, 5.0, 9, "n2")
    job = found[None][0]
    assert (job.step, job.checkpoint_step, job.phase) == (None, 10, "evaluation")


def test_without_a_line_that_names_a_step_the_bar_counts() -> None:
    ((found, at),) = last_of(
        [Line("{'loss': 1.2, 'epoch': 0.1}"), Line("  2%|# | 120/5004 [01:10<47:30, 2.00it/s]", at=9.0)]
    )
    assert (found.step, at) == (120, 9.0)
