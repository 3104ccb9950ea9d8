#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training run that is killed with SIGKILL twice and started again: it ends with the bits of an undisturbed one.

    tessera-aot build examples/digits/digits.mlir -o digits.tsb
    python examples/python/resume.py digits.tsb examples/digits
"""
import signal
import subprocess
import sys
import tempfile

import numpy as np
import tessera

STEPS = 300


def train(bundle, folder, state_dir=None, on_step=None):
    """Resumes from the newest state in state_dir, if there is one."""
    data = {name: np.load(f'{folder}/train-{name}.npy') for name in ('images', 'labels')}
    with tessera.open(bundle) as model:
        return model.train(data, STEPS, state_dir=state_dir, save_every=20, on_step=on_step)


def main(bundle, folder):
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, __file__, bundle, folder, f'{work}/S']
        for kill_at in (90, 200):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
                for line in run.stdout:  # the step that was made
                    if int(line) >= kill_at:
                        break
                run.send_signal(signal.SIGKILL)
            print(f'killed at step {kill_at} or later')
        resumed = train(bundle, folder, f'{work}/S')
    whole = train(bundle, folder)
    print(f'resumed at step {resumed.first_step}')
    assert 0 < resumed.first_step and resumed.state_hash == whole.state_hash
    print(f'the same state as an undisturbed run: {whole.state_hash[:16]}')


if len(sys.argv) == 4:
    train(*sys.argv[1:], on_step=lambda report: print(report.step, flush=True))
else:
    main(*sys.argv[1:])
