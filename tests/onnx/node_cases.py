#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The official node tests of the package onnx: each model is built and run, and its outputs are compared with the expected ones.

node_cases.py AOT RUN ROOT [--all] [--update] [--jobs N] [--only PATTERN] [--results FILE]

Without --all a fixed sample runs; with it every case, and docs/onnx.md must say what was found (--update rewrites it). Exits with 77
where the package onnx is not installed, or has another version than the page.

passed    the outputs are the expected ones
baked     the same, after inputs that give shapes, axes, scales or k were made initializers
refused   the build says why
wrong     other outputs: never allowed
crash     a tool ended in another way: never allowed
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

STEP = 41  # of the sample
REFUSED = 9
KNOWN = 'TSR-0806'
RANDOM = {'RandomNormal', 'RandomNormalLike', 'RandomUniform', 'RandomUniformLike', 'Multinomial', 'Bernoulli'}
# The element types that the aim counts: floats but the smallest, integers of 8 to 64 bits, truth values.
COUNTED = {'FLOAT', 'DOUBLE', 'FLOAT16', 'BFLOAT16', 'INT8', 'INT16', 'INT32', 'INT64', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'BOOL'}
DATA_DEPENDENT = {'NonZero', 'Unique', 'Compress', 'NonMaxSuppression', 'StringSplit'}

# Two units in the last place: the expected values were rounded after each of several ops, ours once.
NARROW = {'bfloat16': 2.0**-6, 'float16': 2.0**-9}
# The expected values of transforms are sums of f32 whose terms cancel: their error is one of the largest value.
CANCELS, CANCELLED = ('DFT', 'STFT'), 1e-6

MARK = '<!-- made by tests/onnx/node_cases.py --all --update -->\n\n'

Result = collections.namedtuple('Result', 'name op domain status reason counted')


def op_of(model):
    """The op that a case is about: that of its first node, unless it was made of a function."""
    return model.graph.node[0].op_type if len(model.graph.node) == 1 else None


def op_from_name(name, ops):
    """The op of an expanded case: the one whose cases have the longest common beginning."""
    stem = re.sub(r'_(expanded|ver).*', '', name)
    while stem:
        if stem in ops:
            return ops[stem]
        stem = stem.rpartition('_')[0]
    return name


def is_counted(model):
    """Does the aim count this case: tensors of the types above, no random op, no shape that depends on data?"""
    if any(node.op_type in RANDOM or node.op_type in DATA_DEPENDENT for node in model.graph.node):
        return False
    for info in list(model.graph.input) + list(model.graph.output):
        if info.type.WhichOneof('value') != 'tensor_type':
            return False
        if onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type) not in COUNTED:
            return False
    types = {a.i for node in model.graph.node for a in node.attribute if a.name in ('to', 'output_dtype', 'dtype')}
    return all(t == 0 or onnx.TensorProto.DataType.Name(t) in COUNTED for t in types)


def save(path, array):
    if array.dtype.name == 'bfloat16':
        array = array.view('V2')
    np.save(path, np.ascontiguousarray(array).reshape(array.shape))


def to_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def bake(model, names, values):
    """The model with these inputs as initializers."""
    baked = onnx.ModelProto()
    baked.CopyFrom(model)
    for name in names:
        infos = [info for info in baked.graph.input if info.name == name]
        baked.graph.input.remove(infos[0])
        baked.graph.initializer.append(numpy_helper.from_array(np.asarray(values[name]), name))
    return baked


def error_of(process):
    lines = [line for line in process.stderr.splitlines() if 'error:' in line]
    return lines[0] if lines else process.stderr[-300:]


class Runner:
    def __init__(self, aot, run):
        self.aot, self.run = aot, run

    def build(self, folder, model):
        (folder / 'm.onnx').write_bytes(model.SerializeToString())
        # Dims without a size are given the size that the case has.
        return subprocess.run([self.aot, 'build', 'm.onnx', '-o', 'm.tsb', '--target=cpu:x86-64-v3', '--threads=1'], cwd=folder,
                              capture_output=True, text=True, errors='replace', timeout=300)

    def build_baked(self, folder, model, inputs):
        """(process, model, was it baked)"""
        given, baked = dict(inputs), []
        process = self.build(folder, model)
        while process.returncode == REFUSED and KNOWN in process.stderr:
            named = re.search(r"\('([^']*)': ", process.stderr)
            left = [info.name for info in model.graph.input if info.name not in baked]
            wanted = [named.group(1)] if named and named.group(1) in left else \
                [name for name in left if np.asarray(given[name]).dtype.kind in 'iub' or np.asarray(given[name]).ndim == 0]
            if not wanted:
                break
            baked += wanted
            process = self.build(folder, bake(model, baked, given))
        return process, baked

    def compare(self, folder, model, expected, rtol, atol):
        """None, or what is wrong."""
        for index, (info, want) in enumerate(zip(model.graph.output, expected)):
            got = np.load(folder / f'out{index}.npy')
            want = np.asarray(want)
            if any(node.op_type in CANCELS for node in model.graph.node):
                atol = max(atol, CANCELLED * np.abs(want).max())
            own_rtol = max(rtol, NARROW.get(want.dtype.name, 0))
            if want.dtype.name == 'bfloat16':
                got, want = got.view(want.dtype).astype(np.float32), want.astype(np.float32)
            if got.dtype != want.dtype or got.shape != want.shape:
                return f'{info.name}: {got.dtype}{list(got.shape)}; expected {want.dtype}{list(want.shape)}'
            if want.dtype.kind in 'iub':
                if not np.array_equal(got, want):
                    return f'{info.name}: other integers'
            elif not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=own_rtol, atol=atol, equal_nan=True):
                worst = np.nanmax(np.abs(got.astype(np.float64) - want.astype(np.float64)))
                return f'{info.name}: off by {worst:g}'
        return None

    def judge(self, case):
        model = case.model
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            inputs, outputs = ([to_array(value) for value in values] for values in case.data_sets[0])
            if not all(isinstance(v, np.ndarray) or np.isscalar(v) for v in list(inputs) + list(outputs)):
                return 'refused', 'a sequence, a map or an optional value'
            names = [info.name for info in model.graph.input]
            process, baked = self.build_baked(folder, model, list(zip(names, inputs)))
            if process.returncode == REFUSED:
                return 'refused', error_of(process)
            if process.returncode:
                return 'crash', f'build exits with {process.returncode}: {error_of(process)}'
            command = [self.run, 'm.tsb']
            for index, (input_name, value) in enumerate(zip(names, inputs)):
                if input_name in baked:
                    continue
                save(folder / f'in{index}.npy', np.asarray(value))
                command += ['--input', f'{input_name}=in{index}.npy']
            for index, info in enumerate(model.graph.output):
                command += ['--output', f'{info.name}=out{index}.npy']
            process = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors='replace', timeout=300)
            if process.returncode:
                return 'crash', f'run exits with {process.returncode}: {error_of(process)}'
            wrong = self.compare(folder, model, outputs, case.rtol, case.atol)
            if wrong:
                return 'wrong', wrong
            return ('baked', '') if baked else ('passed', '')


def share(part, whole):
    return f'{part} of {whole} ({100 * part / max(whole, 1):.1f} %)'


def reason_of(result):
    """What a refusal says, without what differs from case to case."""
    text = re.sub(r'^.*?\[(TSR-\d+)\] ', r'\1: ', result.reason)
    text = re.sub(r"node ('[^']*'|\d+) \([\w.]*\): ", '', text)
    text = re.sub(r"(input|output) '[^']*'", r'an \1', text)
    text = re.sub(r'; the types of the language are.*| \(number \d+\)', '', text)
    return re.sub(r"'[^']*': ", '', text).replace('|', '/')


def make_table(results):
    counts = collections.Counter(r.status for r in results)
    counted = [r for r in results if r.counted]
    good = sum(r.status in ('passed', 'baked') for r in counted)
    lines = [f'{len(results)} cases of onnx {onnx.__version__} (opset {onnx.defs.onnx_opset_version()}): {counts["passed"]} passed, '
             f'{counts["baked"]} passed with inputs baked in, {counts["refused"]} refused, {counts["wrong"]} wrong, {counts["crash"]} crashed. '
             f'Of the cases over the types of ONNX from 8 to 64 bits whose shapes do not depend on data, without random ops: '
             f'{share(good, len(counted))} pass.', '',
             '| op | cases | passed | baked | refused | why |', '|---|---|---|---|---|---|']
    by_op = collections.defaultdict(list)
    for r in results:
        by_op[f'{r.domain}.{r.op}' if r.domain and not r.op.startswith('test_') else r.op].append(r)
    for op, rows in sorted(by_op.items()):
        count = collections.Counter(r.status for r in rows)
        reasons = collections.Counter(reason_of(r) for r in rows if r.status == 'refused')
        why = '; '.join(f'{text} ({n})' for text, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:3])
        lines.append(f'| {op} | {len(rows)} | {count["passed"]} | {count["baked"]} | {count["refused"]} | {why} |')
    return '\n'.join(lines) + '\n'


def check_page(page, results, update):
    """The part of the page after the mark is the table."""
    head, mark, found = page.read_text('utf-8').partition(MARK)
    table = make_table(results)
    if update:
        page.write_text(head + MARK + table, 'utf-8')
    elif not mark or found != table:
        print(f'{page}: the table is not what was found; --update rewrites it')
        return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('aot', type=pathlib.Path)
    parser.add_argument('run', type=pathlib.Path)
    parser.add_argument('root', type=pathlib.Path)
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--update', action='store_true')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--only')
    parser.add_argument('--results', type=pathlib.Path)
    options = parser.parse_args()

    cases = sorted((case for case in collect_testcases(None) if case.model is not None), key=lambda case: case.name)
    stems = {re.sub(r'_(expanded|ver).*', '', case.name): op_of(case.model) for case in cases if op_of(case.model)}
    if options.only:
        cases = [case for case in cases if re.search(options.only, case.name)]
    elif not options.all:
        cases = cases[::STEP]
    runner = Runner(options.aot.resolve(), options.run.resolve())

    def one(case):
        try:
            status, reason = runner.judge(case)
        except subprocess.TimeoutExpired as error:
            status, reason = 'crash', f'no end: {error}'
        if status in ('wrong', 'crash'):
            print(f'FAILED: {case.name}: {status}: {reason}', flush=True)
        op = op_of(case.model) or op_from_name(case.name, stems)
        return Result(case.name, op, case.model.graph.node[0].domain, status, reason, is_counted(case.model))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, cases))
    if options.results:
        options.results.write_text(json.dumps([r._asdict() for r in results], indent=1))
    counts = collections.Counter(r.status for r in results)
    print(f'{len(results)} cases: ' + ', '.join(f'{counts[word]} {word}' for word in ('passed', 'baked', 'refused', 'wrong', 'crash')))
    done = not counts['wrong'] + counts['crash']
    if options.all and not options.only:
        done = check_page(options.root / 'docs/onnx.md', results, options.update) and done
    sys.exit(not done)


if __name__ == '__main__':
    main()
