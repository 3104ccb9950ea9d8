#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training from Python: the states of tessera-run, from arrays, functions and iterables; runs that are killed, interrupted, or whose callbacks raise.

usage: training.py TESSERA_RUN (PYTHONPATH: python; TESSERA_LIBRARY; DIGITS_BUNDLE)
"""
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import common
import numpy as np
import tessera
from common import raises

RUN = sys.argv[1]
DATA = common.digits_data()
TRAINING = {'images': DATA['train-images'], 'labels': DATA['train-labels']}
STEPS = 120


def digits(**options):
    return tessera.open(common.DIGITS, threads=2, **options)


def run_files(folder, steps):
    """The state hash of tessera-run."""
    at = common.ROOT / 'examples/digits'
    done = subprocess.run([RUN, common.DIGITS, f'--data=images={at}/train-images.npy', f'--data=labels={at}/train-labels.npy', '--steps', str(steps),
                           '--state-dir', folder, '--quiet'], capture_output=True, text=True, check=True)
    return re.search(r'^state ([0-9a-f]{64}) step', done.stdout + done.stderr, re.M).group(1)


def expected_hash():
    with tempfile.TemporaryDirectory() as folder:
        return run_files(f'{folder}/S', STEPS)


EXPECTED = expected_hash()


def test_arrays_give_the_state_of_tessera_run():
    with tempfile.TemporaryDirectory() as folder:
        reports = []
        got = digits().train(TRAINING, STEPS, state_dir=f'{folder}/S', on_step=reports.append, progress=False)
        assert got.state_hash == EXPECTED and got.step == STEPS and got.first_step == 0
        assert [r.step for r in reports] == list(range(1, STEPS + 1)) and reports[-1].loss == got.outputs['loss'] < reports[0].loss / 2
        assert reports[3].last_step == STEPS and str(reports[0]).startswith(f'step 1/{STEPS}: loss 2.')
        assert run_files(f'{folder}/S', STEPS) == EXPECTED, 'tessera-run resumes the state'
        part = digits().train(TRAINING, STEPS, state_dir=f'{folder}/S')
        assert part.first_step == part.step == STEPS and part.state_hash == EXPECTED
    transposed = {'images': np.asfortranarray(TRAINING['images']), 'labels': TRAINING['labels'][::-1][::-1]}
    assert digits().train(transposed, STEPS).state_hash == EXPECTED


def test_functions_and_iterables_of_batches():
    model, seen = digits(), []
    with tempfile.TemporaryDirectory() as folder:
        first = digits()
        with first.trainer(rows=len(TRAINING['labels'])) as trainer:
            assert trainer.recovered is None and trainer.position.step == 0 and trainer.position.rows == len(TRAINING['labels'])
            for _ in range(STEPS):
                rows = [trainer.row(i) for i in range(64)]
                report = trainer.step(TRAINING['images'][rows], labels=TRAINING['labels'][rows])
            assert report.step == STEPS and first.state_hash == EXPECTED
            seen = trainer.outputs()
        rows = {}

        def batch(position):
            rows[position.step] = True
            return None if position.step == 7 else (TRAINING['images'][:64], TRAINING['labels'][:64])
        assert model.train(batch, STEPS, state_dir=f'{folder}/T').step == 7 and len(rows) == 8
        assert digits().train(batch, 5, state_dir=f'{folder}/T').first_step == 7, 'the function is given the position of the resumed run'
    batches = [{'images': TRAINING['images'][i:i + 64], 'labels': TRAINING['labels'][i:i + 64]} for i in range(0, 640, 64)]
    hashes = [digits().train(data, 25).state_hash for data in (batches, lambda p: batches[p.step % 10])]
    assert hashes[0] == hashes[1] and seen['loss'] > 0
    assert digits().train(iter(batches), 25).step == 10, 'an iterator cannot be begun again'
    assert model.step(**batches[0]).step == 1 and model.step(**batches[1]).step == 2
    with raises(tessera.UsageError, 'close it first'):
        model.train(TRAINING, 3)
    model.close_trainer()


class Broken(Exception):
    pass


def test_callbacks_that_raise():
    with tempfile.TemporaryDirectory() as folder:
        def fail(report):
            if report.step == 31:
                raise Broken('on_step')

        def data(position):
            if position.step == 31:
                raise Broken('data')
            return TRAINING['images'][:64], TRAINING['labels'][:64]
        for name, arguments in (('a', {'data': TRAINING, 'on_step': fail}), ('b', {'data': data})):
            model = digits()
            with raises(Broken):
                model.train(steps=STEPS, state_dir=f'{folder}/{name}', **arguments)
            assert model.predict(DATA['test-images']).shape == (359, 10), 'the model can be used'
            again = digits().train(arguments['data'] if name == 'a' else lambda p: None, STEPS, state_dir=f'{folder}/{name}')
            assert again.first_step == 31, name
            assert name == 'b' or again.state_hash == EXPECTED
        with raises(Broken):
            digits().train(TRAINING, STEPS, on_step=fail)
        with raises(tessera.DataError, 'labels[1] is 10'):
            bad = TRAINING['labels'][:64].copy()
            bad[1] = 10
            digits().train([(TRAINING['images'][:64], TRAINING['labels'][:64]), (TRAINING['images'][:64], bad)], 5, state_dir=f'{folder}/c')


def test_callbacks_may_call_but_not_close():
    model, errors = digits(), []

    def use(report):
        assert model.predict(DATA['test-images'][:64]).shape == (64, 10)
        for wrong in (model.close, lambda: model.train(TRAINING, 9), lambda: model.initialize(1), lambda: model.trainer()):
            try:
                wrong()
            except tessera.UsageError as error:
                errors.append(str(error))
    assert model.train(TRAINING, 3, on_step=use).step == 3
    assert len(errors) == 12 and all('in use' in text or 'being trained' in text for text in errors), errors
    model.close()


SCRIPT = '''
import sys, time, numpy, tessera
sys.path.insert(0, sys.argv[1])
import common
data = common.digits_data()
model = tessera.open(common.DIGITS, threads=1)
def step(report):
    print(report.step, flush=True)
    time.sleep(float(sys.argv[3]))
try:
    done = model.train({'images': data['train-images'], 'labels': data['train-labels']}, %d, state_dir=sys.argv[2], save_every=5, on_step=step)
    print('state', done.state_hash)
except tessera.Interrupted as stop:
    print('interrupted', stop.step, stop.saved, isinstance(stop, KeyboardInterrupt))
    raise
''' % STEPS


def start(folder, pause):
    return subprocess.Popen([sys.executable, '-c', SCRIPT, str(pathlib.Path(__file__).parent), folder, str(pause)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_kill_and_run_again():
    with tempfile.TemporaryDirectory() as folder:
        kills = 0
        for _ in range(3):
            process = start(f'{folder}/S', 0.008)
            for line in process.stdout:
                if int(line) % 40 == 23:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            process.communicate()
            assert process.returncode == -signal.SIGKILL
        out, error = start(f'{folder}/S', 0).communicate(timeout=60)
        steps = [int(line) for line in out.splitlines()[:-1]]
        assert kills == 3 and steps[0] > 1 and steps[-1] == STEPS, (kills, steps)
        assert out.splitlines()[-1] == f'state {EXPECTED}', error


def test_interrupt_saves_and_raises():
    with tempfile.TemporaryDirectory() as folder:
        process = start(f'{folder}/S', 0.01)
        for line in process.stdout:
            if int(line) == 17:
                process.send_signal(signal.SIGINT)
                break
        out, error = process.communicate(timeout=60)
        words = out.split()
        at = words.index('interrupted')
        assert words[at + 2:] == ['True', 'True'] and 'Interrupted' in error, (out, error)
        again = digits().train(TRAINING, STEPS, state_dir=f'{folder}/S')
        assert again.first_step == int(words[at + 1]) >= 17 and again.state_hash == EXPECTED


def test_what_is_refused():
    model = digits()
    for data, words in (({'images': TRAINING['images']}, ('missing: labels: 64xi64',)), ({**TRAINING, 'x': 1}, ('unknown: x',))):
        with raises(tessera.UsageError, *words):
            model.train(data, 5)
    with raises(tessera.DataError, 'different numbers of rows', "'labels' 5"):
        model.train({**TRAINING, 'labels': TRAINING['labels'][:5]}, 5)
    with raises(tessera.DataError, 'f64'):
        model.train({**TRAINING, 'images': TRAINING['images'].astype('f8')}, 5)
    with raises(tessera.UsageError, "entries of kind train named 'predict'"):
        model.train(TRAINING, 5, entry='predict')
    with raises(tessera.UsageError, 'resume mode'):
        model.train(TRAINING, 5, resume='always')
    with tempfile.TemporaryDirectory() as folder:
        with model.trainer(state_dir=f'{folder}/S') as trainer:
            with raises(tessera.LockedError):
                digits().train(TRAINING, 5, state_dir=f'{folder}/S')
            trainer.step(TRAINING['images'][:64], TRAINING['labels'][:64])
            assert trainer.save() == 1
        with raises(tessera.UsageError, 'is closed'):
            trainer.step(TRAINING['images'][:64], TRAINING['labels'][:64])
        with raises(tessera.MismatchError):
            digits().train(TRAINING, 5, state_dir=f'{folder}/S', seed=9)
        assert digits(state_dir=f'{folder}/S').state_hash == model.state_hash
        with raises(tessera.UsageError, 'no state directory'), model.trainer() as trainer:
            trainer.save()
    with raises(tessera.UsageError, "'rate'"):
        model.set_hyperparameter('rate', 0.1)


def test_evaluation_and_hyperparameters():
    model = digits()
    model.train(TRAINING, 500)
    means = model.evaluate(DATA['test-images'], test_labels=DATA['test-labels'])
    assert round(means['loss'], 6) == 0.127578 and round(means['accuracy'], 6) == 0.961003, means  # examples/digits/digits.mlir
    assert model.hyperparameters['lr'] == 1e-3
    model.set_hyperparameter('lr', 5e-4)
    assert model.hyperparameters['lr'] == 5e-4
    with raises(tessera.DataError, 'no rows'):
        model.evaluate(DATA['test-images'][:0], DATA['test-labels'][:0])


def test_progress():
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        digits().train(TRAINING, 20, progress=True)
        digits().train(TRAINING, 20)
    shown = text.getvalue()
    assert shown.count('\n') == 1 and '20/20 loss ' in shown and 'steps/s' in shown, shown


common.run(sys.modules['__main__'])
