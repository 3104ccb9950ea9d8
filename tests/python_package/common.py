# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: a bundle, an expected exception, a run of all functions whose names begin with `test_`."""
import contextlib
import logging
import os
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = os.environ.get('DIGITS_BUNDLE', '')
ARRAYS = os.environ.get('ARRAYS_BUNDLE', '')
SKIPPED = 77


@contextlib.contextmanager
def raises(kind, *words):
    """The block raises this exception, and its text contains the words."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f'expected {word!r} in {error}'
        return
    raise AssertionError(f'expected {kind.__name__}')


@contextlib.contextmanager
def log_lines():
    """The lines of the library's log in the block, at level DEBUG."""
    log, lines = logging.getLogger('tessera'), []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())
    handler, before = Handler(), log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def digits_data():
    import numpy as np
    return {name: np.load(ROOT / f'examples/digits/{name}.npy') for name in ('train-images', 'train-labels', 'test-images', 'test-labels')}


def run(module):
    """Runs the tests of a module; the exit status says whether all passed."""
    failed, tests = 0, [(name, test) for name, test in vars(module).items() if name.startswith('test_')]
    for name, test in tests:
        try:
            test()
        except Exception:  # noqa: BLE001
            failed += 1
            print(f'FAILED: {name}', file=sys.stderr)
            traceback.print_exc()
    print(f'{len(tests) - failed} passed, {failed} failed')
    sys.exit(failed > 0 or not tests)
