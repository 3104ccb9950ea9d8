#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The official node tests of the package onnx: each model is built and run, and its outputs are compared with the expected ones.

node_cases.py AOT RUN ROOT [--all] [--update] [--jobs N] [--only PATTERN] [--results FILE]

Without --all a fixed sample runs; with it every case, and docs/onnx.md must say what was found (--update rewrites it). Exits with 77
where the package onnx is not installed, or has another version than the page.

passed    the outputs are the expected ones
baked     the same, after inputs that give shapes, axes, scales or k were made initializers
refused   the build says why
wrong     other outputs: never allowed. Of models that draw random numbers only dims and types are compared
crash     a tool ended in another way: never allowed

What passes without baked inputs is built two times more, with the same bits as before:

leading   dim 0 of the inputs is open at run time, `--dim N=1..`: of all inputs where it has the size of the first input's, or of the
          first two of them, or of the first input alone
symbolic  every dim of an input that is not 1 is a symbol, the same for equal sizes; the imported program gets the sizes when it is
          built. The rules of the importer do not see them
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
TARGET = '--target=cpu:x86-64-v3', '--threads=1'
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

Result = collections.namedtuple('Result', 'name op domain status reason counted leading leading_reason symbolic symbolic_reason')


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


def draws(model):
    """Random numbers are those of another generator. Dropout draws in training mode, which is its third input; without a ratio of its
    own it drops nothing in the cases of ratio 0."""
    return any(node.op_type in RANDOM or (node.op_type == 'Dropout' and len(node.input) > 2) for node in model.graph.node)


def is_counted(model):
    """Does the aim count this case: tensors of the types above, no random op, no shape that depends on data?"""
    if draws(model) or any(node.op_type in DATA_DEPENDENT for node in model.graph.node):
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


def name_dims(model, name_of):
    """The model whose inputs have the dims that name_of(input, axis, size) names; None: none is named."""
    named, any_named = onnx.ModelProto(), False
    named.CopyFrom(model)
    for index, info in enumerate(named.graph.input):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            name = name_of(index, axis, dim.dim_value)
            if name:
                dim.dim_param, any_named = name, True
    return named if any_named else None


def error_of(process):
    lines = [line for line in process.stderr.splitlines() if 'error:' in line]
    return lines[0] if lines else process.stderr[-300:]


class Runner:
    def __init__(self, aot, run):
        self.aot, self.run = aot, run

    def tool(self, folder, *words):
        return subprocess.run([self.aot, *words], cwd=folder, capture_output=True, text=True, errors='replace', timeout=300)

    def build(self, folder, model, *words):
        (folder / 'm.onnx').write_bytes(model.SerializeToString())
        return self.tool(folder, 'build', 'm.onnx', '-o', 'm.tsb', *TARGET, *words)

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
            if draws(model):
                continue
            if want.dtype.kind in 'iub':
                if not np.array_equal(got, want):
                    return f'{info.name}: other integers'
            elif not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=own_rtol, atol=atol, equal_nan=True):
                worst = np.nanmax(np.abs(got.astype(np.float64) - want.astype(np.float64)))
                return f'{info.name}: off by {worst:g}'
        return None

    def call(self, folder, model, ports):
        command = [self.run, 'm.tsb']
        for index, (name, value) in enumerate(ports):
            save(folder / f'in{index}.npy', np.asarray(value))
            command += ['--input', f'{name}=in{index}.npy']
        for index, info in enumerate(model.graph.output):
            (folder / f'out{index}.npy').unlink(missing_ok=True)
            command += ['--output', f'{info.name}=out{index}.npy']
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors='replace', timeout=300)

    def outputs(self, folder, model):
        return [(folder / f'out{index}.npy').read_bytes() for index in range(len(model.graph.output))]

    def same_bits(self, folder, model, ports, process, want):
        """What the build with open dims gives."""
        if process.returncode == REFUSED:
            return 'refused', error_of(process)
        if process.returncode:
            return 'crash', f'the build of open dims exits with {process.returncode}: {error_of(process)}'
        process = self.call(folder, model, ports)
        if process.returncode:
            return 'crash', f'the run of open dims exits with {process.returncode}: {error_of(process)}'
        same = self.outputs(folder, model) == want
        return ('passed', '') if same else ('wrong', 'open dims change the bits')

    def judge_leading(self, folder, model, ports):
        """Opens dim 0 at run time; keeps the outputs of the build without."""
        want = self.outputs(folder, model)
        rows = [np.asarray(value).shape[:1] for _, value in ports]
        first = next((index for index, shape in enumerate(rows) if shape and shape[0]), None)
        result = 'none', ''
        if first is None:
            return result
        alike = [i for i, shape in enumerate(rows) if shape == rows[first]]
        for chosen in dict.fromkeys([tuple(alike), tuple(alike[:2]), (first,)]):
            named = name_dims(model, lambda index, axis, size: 'N' if axis == 0 and index in chosen else None)
            process = self.build(folder, named, '--dim', f'N=1..{rows[first][0] + 3}')
            found = self.same_bits(folder, model, ports, process, want)
            if found[0] != 'refused':
                result = found
                break
            result = found if result[0] == 'none' else result
        for index, data in enumerate(want):
            (folder / f'out{index}.npy').write_bytes(data)
        return result

    def judge_symbolic(self, folder, model, ports):
        want = self.outputs(folder, model)
        named = name_dims(model, lambda index, axis, size: f'D{size}' if size > 1 else None)
        if named is None:
            return 'none', ''
        (folder / 'm.onnx').write_bytes(named.SerializeToString())
        process = self.tool(folder, 'import', 'm.onnx', '-o', 'm.mlir')
        if process.returncode == 0:
            text = (folder / 'm.mlir').read_text('utf-8')
            listed = re.search(r'tessera.dims = \[([^\]]*)\]', text)
            symbols = re.findall(r'"D(\d+)"', listed.group(1)) if listed else []
            words = [word for size in symbols for word in ('--dim', f'D{size}={size}')]
            process = self.tool(folder, 'build', 'm.mlir', '-o', 'm.tsb', *TARGET, *words)
        return self.same_bits(folder, model, ports, process, want)

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
            ports = [(name, value) for name, value in zip(names, inputs) if name not in baked]
            process = self.call(folder, model, ports)
            if process.returncode:
                return 'crash', f'run exits with {process.returncode}: {error_of(process)}'
            wrong = self.compare(folder, model, outputs, case.rtol, case.atol)
            if wrong:
                return 'wrong', wrong
            if baked:
                return 'baked', ''
            return 'passed', '', *self.judge_leading(folder, model, ports), *self.judge_symbolic(folder, model, ports)


def share(part, whole):
    return f'{part} of {whole} ({100 * part / max(whole, 1):.1f} %)'


def reason_of(reason):
    """What a refusal says, without what differs from case to case."""
    text = re.sub(r'^.*?\[(TSR-\d+)\] ', r'\1: ', reason)
    text = re.sub(r"node ('[^']*'|\d+) \([\w.]*\): ", '', text)
    text = re.sub(r"(input|output) '[^']*'", r'an \1', text)
    text = re.sub(r'; the types of the language are.*| \(number \d+\)', '', text)
    text = re.sub(r", so dim '\w+' cannot stay open.*|; give (dim '\w+' a size|them sizes).*| of entry '@main'", '', text)
    text = re.sub(r'\bD\d+\b', 'D', text)
    return re.sub(r"'[^']*': ", '', text).replace('|', '/')


def sentence_of(results):
    counts = collections.Counter(r.status for r in results)
    counted = [r for r in results if r.counted]
    good = sum(r.status in ('passed', 'baked') for r in counted)
    return (f'{len(results)} cases of onnx {onnx.__version__} (opset {onnx.defs.onnx_opset_version()}): {counts["passed"]} passed, '
            f'{counts["baked"]} passed with inputs baked in, {counts["refused"]} refused, {counts["wrong"]} wrong, {counts["crash"]} crashed. '
            f'Of the cases over the types of ONNX from 8 to 64 bits whose shapes do not depend on data, without random ops: '
            f'{share(good, len(counted))} pass.')


def open_sentence_of(results, kind, what):
    """Of cases that the aim counts, and whose inputs have dims."""
    tried = [r for r in results if r.counted and r.status == 'passed' and getattr(r, kind) != 'none']
    return f'{what}: {share(sum(getattr(r, kind) == "passed" for r in tried), len(tried))}'


def why_of(rows, kind, limit=3):
    """The most frequent reasons of a column, with their counts."""
    status, reason = ('status', 'reason') if kind == 'status' else (kind, f'{kind}_reason')
    reasons = collections.Counter(reason_of(getattr(r, reason)) for r in rows if getattr(r, status) == 'refused')
    return '; '.join(f'{text} ({n})' for text, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:limit])


def ratio(rows, kind):
    tried = [r for r in rows if r.status == 'passed' and getattr(r, kind) != 'none']
    return f'{sum(getattr(r, kind) == "passed" for r in tried)}/{len(tried)}' if tried else ''


def make_table(results):
    lines = [sentence_of(results), '', 'Of these cases, those that pass without baked inputs, with open dims and the same bits: '
             + open_sentence_of(results, 'leading', 'dim 0 open at run time (*leading*)') + '; '
             + open_sentence_of(results, 'symbolic', 'all dims symbols in the imported program (*symbolic*)') + '.', '',
             '| op | cases | passed | baked | refused | leading | symbolic | why |', '|---|---|---|---|---|---|---|---|']
    by_op = collections.defaultdict(list)
    for r in results:
        by_op[f'{r.domain}.{r.op}' if r.domain and not r.op.startswith('test_') else r.op].append(r)
    for op, rows in sorted(by_op.items()):
        count = collections.Counter(r.status for r in rows)
        lines.append(f'| {op} | {len(rows)} | {count["passed"]} | {count["baked"]} | {count["refused"]} | {ratio(rows, "leading")} '
                     f'| {ratio(rows, "symbolic")} | {why_of(rows, "status")} |')
    lines += ['', '### Open dims that are refused', '', '| op | column | why |', '|---|---|---|']
    for op, rows in sorted(by_op.items()):
        for kind in ('leading', 'symbolic'):
            why = why_of(rows, kind)
            lines += [f'| {op} | {kind} | {why} |'] if why else []
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
            found = runner.judge(case)
        except subprocess.TimeoutExpired as error:
            found = 'crash', f'no end: {error}'
        found += ('none', '') * ((6 - len(found)) // 2)
        for status, reason in zip(found[::2], found[1::2]):
            if status in ('wrong', 'crash'):
                print(f'FAILED: {case.name}: {status}: {reason}', flush=True)
        op = op_of(case.model) or op_from_name(case.name, stems)
        return Result(case.name, op, case.model.graph.node[0].domain, *found[:2], is_counted(case.model), *found[2:])

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, cases))
    if options.results:
        options.results.write_text(json.dumps([r._asdict() for r in results], indent=1))
    done = True
    for kind in ('status', 'leading', 'symbolic'):
        counts = collections.Counter(getattr(r, kind) for r in results)
        words = ('passed', 'baked', 'refused', 'none', 'wrong', 'crash')
        print(f'{kind}: {len(results)} cases: ' + ', '.join(f'{counts[word]} {word}' for word in words))
        done = done and not counts['wrong'] + counts['crash']
    if options.all and not options.only:
        done = check_page(options.root / 'docs/onnx.md', results, options.update) and done
    sys.exit(not done)


if __name__ == '__main__':
    main()
