#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Open dims: a random graph of which one size is the symbol N becomes the original graph when N is bound, and the same bundle.

usage: dims.py TOOLS [SEED [COUNT]]

In each graph one size of an argument's dim becomes N wherever it occurs in a type, and its multiples become multiples of N; other
result types that depend on N are those that the verifier offers. Pass tessera-bind-dims must then restore the text of the original graph, and a bundle of all graphs must have the bytes of the
original's programs and kernels. A graph is skipped if the size is also that of a dim that does not depend on the argument, such as
a constant's: then the shapes do not agree for every N. The same holds for examples with an open batch. Prints the seed and how many graphs were compared.
"""
import pathlib
import re
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is not installed')
    sys.exit(77)

from generate import KINDS, Generator
from graph import Type, split, write
from product import Product, cpu_levels

COMPARED_LEAST = 0.2  # of the graphs: a test that skips nearly all says little
CORRECTIONS_MAX = 12  # result types of one graph
MULTIPLES = range(1, 13)
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = {'examples/digits/digits.mlir': 64, 'examples/convnet/convnet.mlir': 64}  # and their batches
BUNDLED = 12  # graphs in the bundle
# Lines of tessera-aot diff about locations in the source and its digest.
POSITIONS = re.compile(r'(layer|text)\s+(graph\.mlir|provenance\.json) ')


class Open(Type):
    """A type in which some dims are texts."""

    def __str__(self):
        texts = ', '.join(f'"{d}"' for d in self.shape if isinstance(d, str))
        dims = ''.join('?x' if isinstance(d, str) else f'{d}x' for d in self.shape)
        return f'tensor<{dims}{self.dtype}{", #tessera.dims<" + texts + ">" if texts else ""}>'


def opened(kind, size):
    def dim(d):
        times = d // size
        return (f'{times}*N' if times > 1 else 'N') if d % size == 0 and times in MULTIPLES else d
    return Open([dim(d) for d in kind.shape], kind.dtype)


def open_region(region, size):
    """Changes the types in the region; those of constants and parameters are as before."""
    region.arguments = [(name, opened(kind, size)) for name, kind in region.arguments]
    for op in region.ops:
        for inner in op.regions:
            open_region(inner, size)
        if op.name not in ('constant', 'param', 'opt.state'):
            op.types = [opened(kind, size) for kind in op.types]
        if op.name == 'slice':
            op.attrs['size'] = re.sub(rf'\b{size}\b(?! *:)', '"N"', op.attrs['size']).replace('"N" : i64', '"N"')


def make(seed, at):
    """The graph as text, N, and the graph with N open; None if the graph has no argument that can be opened."""
    texts = []
    for is_open in False, True:
        random = np.random.default_rng([seed, at])
        edge = int(random.choice([5, 7, 11, 13, 17, 23]))
        g = Generator(random, [k for k in KINDS if k != 'optimize'], empty=False, edge=edge)
        function = g.graph(f'g{at}', int(random.integers(2, 10)))
        size = next((d for _, kind in function.arguments for d in kind.shape if d == edge), None)
        if size is None or not function.ops[-1].operands:
            return None
        if is_open:
            open_region(function, size)
            return texts[0], size, function
        texts.append(write(function))
    return None


def write_open(function):
    kind = '{tessera.entry = "infer"'
    return write(function).replace(kind, kind + ', tessera.dims = ["N"]', 1)


def module(text, sizes=''):
    return f'module attributes {{{sizes}}} {{\n{text}}}\n'


class Offered(Type):
    """A type as the verifier wrote it."""

    def __init__(self, text):
        super().__init__((), '')
        self.text = text

    def __str__(self):
        return self.text


def find(region, result):
    """The op with this result, in the region and those in it."""
    for op in region.ops:
        if result in op.results:
            return op
        for inner in op.regions:
            found = find(inner, result)
            if found:
                return found
    return None


def corrected(product, function):
    """The text of the graph with the result types that the verifier offers instead of wrong ones; None if it refuses the graph
    for another reason."""
    for _ in range(CORRECTIONS_MAX):
        text = write_open(function)
        checked = product.call('tessera-opt', '-tessera-verify', '-', text=module(text))
        if checked.returncode == 0:
            return text
        offer = re.search(r":(\d+):\d+: error: .* in '.*', must be .*; did you mean '(.*)'\?$", checked.stderr, re.M)
        line = offer and text.splitlines()[int(offer[1]) - 2]
        name = line and re.match(r'\s*(%\w+) = ', line)
        op = name and find(function, name[1])
        if not op:
            return None
        op.types = [Offered(offer[2])]
    return None


def bound(product, text, size):
    """The text of the graph after binding."""
    done = product.call('tessera-opt', '-tessera-bind-dims', '--mlir-print-op-generic', '-',
                        text=module(text, f'tessera.dim_sizes = {{N = {size} : i64}}'))
    return done.stdout if done.returncode == 0 else done.stderr


def bundle(product, name, text, *arguments):
    folder = product.work / name
    folder.mkdir()
    source = folder / 'graphs.mlir'
    source.write_text(text, encoding='utf-8')
    targets = ','.join(f'cpu:{level}' for level in product.targets)
    done = product.call('tessera-aot', 'build', source, '-o', folder / 'graphs.tsb', '--target', targets, *arguments, seconds=600)
    if done.returncode:
        sys.exit(f'{name}: {done.stderr}')
    return folder / 'graphs.tsb'


def bundles_differ(product, graphs):
    """The differences of the bundles of all graphs: of the originals, and of the open ones with N bound."""
    original = bundle(product, 'original', '\n'.join(text for text, _, _ in graphs))
    opened_, sizes = [], []
    for at, (_, size, text) in enumerate(graphs):
        opened_.append(re.sub(r'\bN\b', f'N{at}', text))
        sizes += ['--dim', f'N{at}={size}']
    done = product.call('tessera-aot', 'diff', original, bundle(product, 'open', '\n'.join(opened_), *sizes))
    if done.returncode not in (0, 21):
        sys.exit(done.stderr)
    return [line for line in done.stdout.splitlines() if line and not POSITIONS.match(line)]


# ---- examples ---------------------------------------------------------------------------------------------------------------

def open_line(line, closed, size):
    """A line of generic text with the batch open: types of values whose first dim is the batch, except values in `closed`, which do
    not depend on the arguments of their function."""
    def opened_type(text):
        return re.sub(rf'tensor<{size}((?:x\d+)*x\w+)>', r'tensor<?\1, #tessera.dims<N>>', text)
    if 'function_type' in line or '^bb0' in line:
        return opened_type(line)
    op = re.match(r'(\s*(?:(%\w+) = )?"[\w.]+"\((.*?)\)(?: <\{.*\}>)? : )\((.*)\) -> (.*)$', line)
    if not op:
        return line.replace('{tessera.entry', '{tessera.dims = ["N"], tessera.entry')
    head, result, operands, types, results = op.groups()
    names, kinds = split(operands), split(types)
    is_closed = [name in closed for name in names]
    if all(is_closed):
        closed.add(result)
        return line
    kinds = [kind if c else opened_type(kind) for kind, c in zip(kinds, is_closed)]
    return f'{head}({", ".join(kinds)}) -> {opened_type(results)}'


def check_example(product, path, size):
    """Differences of the example and of the same with its batch open, bound to its size: of the texts, and of the bundles."""
    done = product.call('tessera-opt', '--mlir-print-op-generic', path)
    closed = set()
    text = '\n'.join(open_line(line, closed, size) for line in done.stdout.splitlines()) + '\n'
    attributes = f' {{tessera.dim_sizes = {{N = {size} : i64}}}} : () -> ()\n'
    again = product.call('tessera-opt', '-tessera-verify', '-tessera-bind-dims', '--mlir-print-op-generic', '-',
                         text=text.rstrip().removesuffix(' : () -> ()') + attributes)
    if again.stdout != done.stdout:
        return [f'{path}: another text; {again.stderr[:400]}']
    bundles = [bundle(product, f'{path.stem}-original', done.stdout), bundle(product, f'{path.stem}-open', text, '--dim', f'N={size}')]
    compared = product.call('tessera-aot', 'diff', *bundles)
    return [f'{path}: {line}' for line in compared.stdout.splitlines() if line and not POSITIONS.match(line)]


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(np.random.SeedSequence().entropy % 10**9)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    print(f'seed {seed}', flush=True)
    wrong, same, tried = 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        product = Product(sys.argv[1], pathlib.Path(folder) / 'work', cpu_levels())
        for at in range(count):
            made = make(seed, at)
            if not made:
                continue
            tried += 1
            text, size, function = made
            open_text = corrected(product, function)
            if open_text is None:
                continue
            got = bound(product, open_text, size)
            if got == product.opt(module(text)):
                same.append((text, size, open_text))
                continue
            wrong += 1
            print(f'graph {at}, N = {size}:\n{open_text}\n{got}')
        lines = bundles_differ(product, same[:BUNDLED])
        for path, size in EXAMPLES.items():
            lines += check_example(product, ROOT / path, size)
        print('\n'.join(lines))
    print(f'{tried} graphs, {len(same)} restored, {wrong} wrong, {tried - len(same) - wrong} skipped; {len(lines)} differences of bundles')
    sys.exit(bool(wrong or lines) or len(same) < COMPARED_LEAST * tried)


main()
