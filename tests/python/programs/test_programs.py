# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole programs in the style of TensorFlow 1.x, run unchanged by `python -m millrace`."""
from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def _run(program: str, folder: str, *arguments: str) -> str:
    """What a program prints when it runs in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "millrace", os.path.join(HERE, program), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _numbers(pattern: str, text: str) -> list[float]:
    return [float(n) for n in re.findall(pattern, text)]


def test_cifar10_trains_evaluates_and_averages_over_towers(tmp_path):
    folder = str(tmp_path)
    losses = _numbers(r"step \d+, loss = (\S+)", _run("cifar10/cifar10_train.py", folder))
    assert len(losses) == 3 and all(
        1.5 < loss < 4 for loss in losses
    )  # near log(10) and the decay of weights
    printed = _run("cifar10/cifar10_eval.py", folder)
    assert re.search(r"precision @ 1 = [01]\.\d{3} 30", printed), printed
    printed = _run("cifar10/cifar10_multi.py", folder)
    assert len(_numbers(r"step \d+ loss (\S+)", printed)) == 3
    assert "'conv1/weights/ExponentialMovingAverage', 'global_step'" in printed


def test_a_language_model_learns_under_a_supervisor(tmp_path):
    printed = _run("ptb_word_lm.py", str(tmp_path), "--save_path=saved")
    train = _numbers(r"Train Perplexity: (\S+)", printed)
    assert len(train) == 3 and train[-1] < train[0] < 30
    assert os.path.exists(tmp_path / "saved" / "checkpoint")


def test_word_vectors_learn_their_neighbours(tmp_path):
    printed = _run("word2vec_basic.py", str(tmp_path), "--log_dir=log")
    average = _numbers(r"Average loss at step\s+\d+ :\s+(\S+)", printed)
    assert len(average) == 3 and average[-1] < average[0]
    assert "single_image_dim: 28" in printed and "(38, 16)" in printed


def test_threads_train_word_vectors(tmp_path):
    printed = _run("word2vec_threads.py", str(tmp_path), "--concurrent_steps", "2")
    loss, before = re.search(r"Step\s+200: .* loss =\s+(\S+) before\s+(\S+)", printed).groups()
    assert float(loss) < float(before)


def test_dcgan_counts_its_variables(tmp_path):
    printed = _run("dcgan.py", str(tmp_path))
    assert len(_numbers(r"d_loss: (\S+),", printed)) == 12
    assert "Total bytes of variables: 17184" in printed


def test_wgan_differentiates_gradients(tmp_path):
    values = re.search(r"D (\S+) gp (\S+) G (\S+)", _run("wgan_gp.py", str(tmp_path))).groups()
    assert 0 < float(values[1]) < 10  # ten times the square of 1 - slope


@pytest.mark.parametrize(
    "program",
    [
        "vae.py", "dqn.py", "a3c.py", "style_transfer.py", "transformer.py", "mnist_with_summaries.py",
        "ctc_speech.py",
        "towers.py", "crf_tagger.py", "char_rnn.py", "retrain.py",
    ],
)  # fmt: skip
def test_programs_that_check_themselves(program, tmp_path):
    assert _run(program, str(tmp_path))


def test_a_residual_network_learns_from_records(tmp_path):
    loss, accuracy = re.search(r"loss (\S+) acc \((\S+),", _run("resnet.py", str(tmp_path))).groups()
    assert float(loss) < 1.0 and float(accuracy) > 0.9  # pictures of three colours


def test_texts_are_classified(tmp_path):
    printed = _run("text_classifier.py", str(tmp_path))
    accuracy = float(re.search(r"final \[(\S+), ", printed).group(1))
    assert accuracy > 0.9 and "gut sch" in printed and "UNK None" in printed


def test_a_model_is_exported_and_loaded(tmp_path):
    printed = _run("export_model.py", str(tmp_path))
    assert "tensorflow/serving/predict" in printed and printed.count("True") == 2


def test_a_translation_model_reads_with_attention_and_searches_with_beams(tmp_path):
    printed = _run("nmt.py", str(tmp_path))
    losses = _numbers(r"step \d+ loss (\S+)", printed)
    assert losses[-1] < losses[0] / 4
    greedy, beam = re.search(r"greedy (\d+) beam (\d+) of 20", printed).groups()
    assert int(greedy) >= 12 and int(beam) >= 12


def test_slim_reads_boxes_trains_and_evaluates(tmp_path):
    printed = _run("slim_detection.py", str(tmp_path))
    assert 0 < float(re.search(r"final loss (\S+)", printed).group(1)) < 3
    assert 0 <= float(re.search(r"accuracy (\S+)", printed).group(1)) <= 1
    assert os.path.exists(tmp_path / "train" / "model.ckpt-30.index")
