#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a transformer block, forward and a training step, with PyTorch and ONNX Runtime on CPU.

usage: transformer.py TESSERA_AOT TESSERA_RUN MODEL_BENCH [options]

The block: layernorm, product to query, key and value, causal attention, product, residual; layernorm, product, GELU (with erf), product,
residual; products with biases. A training step: mean squared distance from a target, gradients, AdamW. First the values: forward and the
gradient of every parameter against PyTorch in float64. Then the times, in turns: ours (MODEL_BENCH; for f32 the faster of portable and
native numerics), PyTorch eager and, if possible here, compiled (AdamW fused), ONNX Runtime forward, and its step if --onnx-training names a
Python with package onnxruntime-training, which excludes onnxruntime (onnx_step.py).
On CPUs with dot products of bf16 the same in bf16, native: forward entirely in bf16; in the step products and attention, from f32
parameters, compared with PyTorch's model.bfloat16() and autocast, the fastest. Prints a row per case, then one JSON object: seconds, the
operations of the products (the minimum of the block) divided by the FMA peak of the same run (twice that for bf16), ratios to the fastest
peer. Exits with 77 without PyTorch; ONNX Runtime is omitted, with a notice, if it is not installed.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

# Tolerances relative to the largest magnitude, against f64: sums of some thousand products; a dozen roundings to bf16, 2^-9 each, that add up randomly.
TOLERANCE = {'f32': 1e-5, 'bf16': 2.0 ** -6}
FORWARD_DTYPES, STEP_DTYPES = {'f32': ('f32', 'f32'), 'bf16': ('bf16', 'bf16')}, {'f32': ('f32', 'f32'), 'bf16': ('f32', 'bf16')}
LEARNING_RATE = 2.0 ** 10  # rate of the step from which gradients are read: (before - after) / rate
ROUNDS, ROUND_SECONDS = 3, 1.0


def parameters(width):
    return {'norm1.scale': (width,), 'norm1.bias': (width,), 'qkv.weight': (width, 3 * width), 'qkv.bias': (3 * width,),
            'out.weight': (width, width), 'out.bias': (width,), 'norm2.scale': (width,), 'norm2.bias': (width,),
            'up.weight': (width, 4 * width), 'up.bias': (4 * width,), 'down.weight': (4 * width, width), 'down.bias': (width,)}


def tensor(*shape, dtype='f32'):
    return f'tensor<{"".join(f"{d}x" for d in shape)}{dtype}>'


def block_text(batch, positions, width, heads, dtypes):
    """`dtypes`: the dtype of the parameters, norms and residuals; the dtype of the products and attention."""
    size, (stored, used) = width // heads, dtypes
    stream, inner = (tensor(batch, positions, width, dtype=dtype) for dtype in dtypes)
    wide, qkv = (tensor(batch, positions, n * width, dtype=used) for n in (4, 3))
    lines = []
    for name, shape in parameters(width).items():
        spread = 'constant<1.0>' if name.endswith('scale') else 'uniform<-0.05, 0.05>'
        lines.append(f'%{name} = tessera.param "{name}" init = #tessera.{spread} : {tensor(*shape, dtype=stored)}')

    def cast(source, shape, from_dtype, to_dtype):
        if from_dtype == to_dtype:
            return source
        from_type, to_type = tensor(*shape, dtype=from_dtype), tensor(*shape, dtype=to_dtype)
        lines.append(f'%{source}.{to_dtype} = tessera.cast %{source} : {from_type} to {to_type}')
        return f'{source}.{to_dtype}'

    def norm(result, source, name):
        row = tensor(width, dtype=stored)
        lines.append(f'%{result} = tessera.layernorm_safe %{source}, %{name}.scale, %{name}.bias {{axes = [2], eps = 1.0e-5}} : '
                     f'{stream}, {row}, {row} -> {stream}')
        return cast(result, (batch, positions, width), stored, used)

    def linear(result, source, name, from_type, to_type):
        shapes = [parameters(width)[f'{name}.{part}'] for part in ('weight', 'bias')]
        weight, bias = (cast(f'{name}.{part}', dims, stored, used) for part, dims in zip(('weight', 'bias'), shapes))
        weight_type, bias_type = (tensor(*dims, dtype=used) for dims in shapes)
        lines.append(f'%{result}.m = tessera.matmul %{source}, %{weight} : {from_type}, {weight_type} -> {to_type}')
        lines.append(f'%{result} = tessera.add %{result}.m, %{bias} : {to_type}, {bias_type} -> {to_type}')

    def residual(result, source, change):
        change = cast(change, (batch, positions, width), used, stored)
        lines.append(f'%{result} = tessera.add %{source}, %{change} : {stream}, {stream} -> {stream}')

    linear('qkv', norm('h1', 'x', 'norm1'), 'qkv', inner, qkv)
    lines.append(f'%parts:3 = tessera.split %qkv {{axis = 2 : i64}} : {qkv} -> {inner}, {inner}, {inner}')
    apart, transposed = (tensor(batch, *dims, size, dtype=used) for dims in ((positions, heads), (heads, positions)))
    for i, name in enumerate('qkv'):
        lines.append(f'%{name}.r = tessera.reshape %parts#{i} : {inner} -> {apart}')
        lines.append(f'%{name}.t = tessera.transpose %{name}.r {{permutation = [0, 2, 1, 3]}} : {apart} -> {transposed}')
    lines.append(f'%a = tessera.attention %q.t, %k.t, %v.t {{causal}} : {transposed}, {transposed}, {transposed} -> {transposed}')
    lines.append(f'%a.t = tessera.transpose %a {{permutation = [0, 2, 1, 3]}} : {transposed} -> {apart}')
    lines.append(f'%a.r = tessera.reshape %a.t : {apart} -> {inner}')
    linear('o', 'a.r', 'out', inner, inner)
    residual('r1', 'x', 'o')
    linear('u', norm('h2', 'r1', 'norm2'), 'up', inner, wide)
    lines.append(f'%g = tessera.gelu %u : {wide}')
    linear('d', 'g', 'down', wide, inner)
    residual('y', 'r1', 'd')
    return lines, stream


def module_text(shape, train, optimizer, dtypes=('f32', 'f32')):
    lines, x = block_text(*shape, dtypes)
    if train:
        head = f'func.func @f(%x: {x} {{tessera.data = "x"}}, %t: {x} {{tessera.data = "t"}}) -> (tensor<f32> {{tessera.name = "loss"}})'
        lines += [f'%e = tessera.sub %y, %t : {x}, {x} -> {x}', f'%s = tessera.mul %e, %e : {x}, {x} -> {x}',
                  f'%l = tessera.mean %s {{axes = [0, 1, 2]}} : {x} -> tensor<f32>',
                  f'tessera.minimize %l {{optimizer = {optimizer}}} : tensor<f32>', 'return %l : tensor<f32>']
    else:
        head = f'func.func @f(%x: {x} {{tessera.name = "x"}}) -> ({x} {{tessera.name = "y"}})'
        lines += [f'return %y : {x}']
    kind = 'train' if train else 'infer'
    return 'module @block {\n' + head + f' attributes {{tessera.entry = "{kind}"}} {{\n' + '\n'.join(lines) + '\n}\n}\n'


ADAMW = '#tessera.adamw<lr = 1.0e-4, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>'
SGD = f'#tessera.sgd<lr = {LEARNING_RATE}, momentum = 0.0, weight_decay = 0.0>'


def forward(p, x, heads):
    batch, positions, width = x.shape
    h = F.layer_norm(x, (width,), p['norm1.scale'], p['norm1.bias'])
    q, k, v = (part.view(batch, positions, heads, -1).transpose(1, 2) for part in F.linear(h, p['qkv.weight'], p['qkv.bias']).chunk(3, -1))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, positions, width)
    x = x + F.linear(a, p['out.weight'], p['out.bias'])
    h = F.layer_norm(x, (width,), p['norm2.scale'], p['norm2.bias'])
    return x + F.linear(F.gelu(F.linear(h, p['up.weight'], p['up.bias'])), p['down.weight'], p['down.bias'])


def product_flops(batch, positions, width, heads):
    """Returns the operations of the forward pass; causal attention computes half of the scores. The gradient needs twice the products;
    attention's 5 / 2."""
    dense, attention = 24 * batch * positions * width * width, 4 * batch * positions * (positions + 1) // 2 * width
    return dense + attention, 3 * dense + attention * 7 // 2


# ---- values ----

def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(command)}:\n{done.stdout}{done.stderr}')
    return done.stdout


def read_safetensors(path):
    with open(path, 'rb') as file:
        data = file.read()
    size = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size:][slice(*entry['data_offsets'])], '<f4').reshape(entry['shape'])
            for name, entry in header.items() if name != '__metadata__'}


def bf16_bits(array):
    """For numbers in bf16."""
    return (array.view('<u4') >> 16).astype('<u2')


def write_safetensors(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {'dtype': 'F32' if array.dtype == np.float32 else 'BF16', 'shape': array.shape, 'data_offsets': [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text + b''.join(array.tobytes() for array in arrays.values()))


def compare(what, got, expected, dtype):
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    if not error <= TOLERANCE[dtype]:
        sys.exit(f'{what}: relative error {error:.3g}, allowed {TOLERANCE[dtype]}')
    return error


def build(aot, folder, name, text, dtype):
    source, bundle = f'{folder}/{name}.mlir', f'{folder}/{name}.tsb'
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text)
    run([aot, 'build', source, '-o', bundle, *(['--numerics', 'native', '--target', 'cpu:x86-64-v4-bf16'] if dtype == 'bf16' else [])])
    return bundle


def check_values(args, folder, shape, dtype):
    """Returns the largest relative errors of the result and of the gradients."""
    random = np.random.default_rng(args.seed)
    x, t = (random.standard_normal(shape[:3]).astype('f4') for _ in range(2))
    x = torch.tensor(x).bfloat16().float().numpy() if dtype == 'bf16' else x
    np.save(f'{folder}/x.npy', x)
    np.save(f'{folder}/t.npy', t)
    data = ['--data', f'x={folder}/x.npy', '--data', f't={folder}/t.npy', '--quiet']
    step = build(args.aot, folder, 'step', module_text(shape, True, SGD, STEP_DTYPES[dtype]), dtype)
    before = {name: (random.standard_normal(dims) * 0.03).astype('f4') for name, dims in parameters(shape[2]).items()}
    if dtype == 'bf16':
        before = {name: torch.tensor(value).bfloat16().float().numpy() for name, value in before.items()}
    write_safetensors(f'{folder}/before', before)
    run([args.run, step, *data, '--steps', '1', '--params', f'{folder}/before', '--export-params', f'{folder}/after'])
    after = read_safetensors(f'{folder}/after')
    y = run_forward(args, folder, shape, dtype, before, x)
    p = {name: torch.tensor(value.T.astype('f8'), requires_grad=True) for name, value in before.items()}
    expected = forward(p, torch.tensor(x.astype('f8')), shape[3])
    F.mse_loss(expected, torch.tensor(t.astype('f8'))).backward()
    error = compare('the result', y, expected.detach().numpy(), dtype)
    gradients = {name: (before[name] - after[name]) / LEARNING_RATE for name in p}
    return error, max(compare(f'gradient of {name}', gradients[name].T, p[name].grad.numpy(), dtype) for name in p)


def run_forward(args, folder, shape, dtype, params, x):
    bundle = build(args.aot, folder, 'forward', module_text(shape, False, None, FORWARD_DTYPES[dtype]), dtype)
    command = [args.run, bundle, '--entry', 'f', '--params', f'{folder}/params']
    if dtype == 'f32':
        write_safetensors(f'{folder}/params', params)
        run([*command, '--input', f'x={folder}/x.npy', '--output', f'y={folder}/y.npy'])
        return np.load(f'{folder}/y.npy')
    write_safetensors(f'{folder}/params', {name: bf16_bits(value) for name, value in params.items()})
    write_safetensors(f'{folder}/x.safetensors', {'x': bf16_bits(x)})
    run([*command, '--input', f'x={folder}/x.safetensors:x', '--output', f'y={folder}/y.bin'])
    return (np.fromfile(f'{folder}/y.bin', '<u2').astype('u4') << 16).view('f4').reshape(x.shape)


# ---- times ----

def seconds_of(call):
    call()
    count, start, now = 0, time.perf_counter(), 0.0
    while now < ROUND_SECONDS / 4 or count < 2:
        call()
        count += 1
        now = time.perf_counter() - start
    return now / count


def torch_pair(shape, dtype, autocast, model):
    """A forward pass and a step; parameters have the layout of torch.nn.Linear."""
    torch.manual_seed(0)
    x, t = torch.randn(shape[:3]).to(dtype), torch.randn(shape[:3])
    p = {name: torch.nn.Parameter((torch.randn(dims[::-1]) * 0.03).to(dtype)) for name, dims in parameters(shape[2]).items()}
    optimizer = torch.optim.AdamW(p.values(), lr=1e-4, fused=True)

    def infer():
        with torch.inference_mode(), torch.autocast('cpu', torch.bfloat16, enabled=autocast):
            model(p, x, shape[3])

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16, enabled=autocast):
            y = model(p, x, shape[3])
        F.mse_loss(y.float(), t).backward()
        optimizer.step()

    return infer, step


def torch_cases(shape, dtype):
    """{name: call}"""
    cases, ways = {}, {'': (torch.float32, False)}
    if dtype == 'bf16':
        ways = {'bfloat16 ': (torch.bfloat16, False), 'autocast ': (torch.float32, True)}
    torch._dynamo.reset()  # it gives up if one function is compiled for too many shapes
    for way, (kind, autocast) in ways.items():
        for how in ('eager', 'compiled'):
            infer, step = torch_pair(shape, kind, autocast, torch.compile(forward) if how == 'compiled' else forward)
            try:
                infer()
                step()
            except Exception as error:  # torch.compile needs a compiler that it likes
                print(f'PyTorch {way}{how}: {type(error).__name__}: {str(error)[:200]}', file=sys.stderr)
                continue
            cases[f'forward torch {way}{how}'], cases[f'step torch {way}{how}'] = infer, step
    return cases


def onnx_model(shape, fused, train=False):
    """The block as exporters write it: with the operator Attention, or as products and Softmax. `train`: norms also return the values
    that their gradients read."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    batch, positions, width, heads = shape
    nodes, values = [], []

    def constant(name, array):
        values.append(numpy_helper.from_array(array, name))
        return name

    def node(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output] if isinstance(output, str) else output, **attrs))
        return output

    random = np.random.default_rng(0)
    for name, dims in parameters(width).items():
        constant(name, (random.standard_normal(dims) * 0.03).astype('f4'))

    def norm(source, name):
        results = [f'{name}.y', f'{name}.mean', f'{name}.deviation'] if train else [f'{name}.y']
        return node('LayerNormalization', [source, f'{name}.scale', f'{name}.bias'], results, axis=-1, epsilon=1e-5)[0]

    def linear(source, name):
        node('MatMul', [source, f'{name}.weight'], f'{name}.m')
        return node('Add', [f'{name}.m', f'{name}.bias'], f'{name}.y')

    parts = node('Split', [linear(norm('x', 'norm1'), 'qkv')], ['q', 'k', 'v'], axis=-1, num_outputs=3)
    apart, together = constant('apart', np.array([batch, positions, heads, width // heads])), constant('together', np.array([batch, positions, width]))
    q, k, v = (node('Transpose', [node('Reshape', [part, apart], f'{part}.r')], f'{part}.t', perm=[0, 2, 1, 3]) for part in parts)
    scale = (width // heads) ** -0.5
    if fused:
        a = node('Attention', [q, k, v], 'a', is_causal=1, scale=scale)
    else:
        unseen = constant('unseen', np.triu(np.full((positions, positions), -np.inf, 'f4'), 1))
        k = node('Transpose', [f'{parts[1]}.r'], 'k.tt', perm=[0, 2, 3, 1])
        s = node('Mul', [node('MatMul', [q, k], 's'), constant('scale', np.float32(scale))], 's.s')
        a = node('MatMul', [node('Softmax', [node('Add', [s, unseen], 's.m')], 'p', axis=-1), v], 'a')
    a = node('Reshape', [node('Transpose', [a], 'a.t', perm=[0, 2, 1, 3]), together], 'a.r')
    r = node('Add', ['x', linear(a, 'out')], 'r')
    g = node('Gelu', [linear(norm(r, 'norm2'), 'up')], 'g')
    node('Add', [r, linear(g, 'down')], 'y')
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape[:3]) for n in 'xy')
    graph = helper.make_graph(nodes, 'block', [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 23 if fused else 20)], ir_version=10).SerializeToString()


def onnx_cases(shape, threads):
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        print(f'skipped: ONNX Runtime ({error})', file=sys.stderr)
        return {}
    x, cases = {'x': np.random.default_rng(1).standard_normal(shape[:3]).astype('f4')}, {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    for fused in (True, False):
        try:
            session = onnxruntime.InferenceSession(onnx_model(shape, fused), options, providers=['CPUExecutionProvider'])
            session.run(None, x)
        except Exception as error:  # an operator that this version lacks
            print(f'ONNX Runtime, {"Attention" if fused else "products"}: {str(error)[:200]}', file=sys.stderr)
            continue
        cases[f'forward onnx {"fused" if fused else "plain"}'] = lambda session=session: session.run(None, x)
    return cases


class OnnxStep:
    """A process with another Python; a call returns the seconds of a step."""

    def __init__(self, python, shape, threads):
        command = [python, f'{os.path.dirname(os.path.abspath(__file__))}/onnx_step.py', 'x'.join(map(str, shape)), str(threads)]
        self.said = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)
        lines = iter(self.process.stdout.readline, '')
        self.ready = any(line == 'ready\n' for line in lines)

    def __call__(self):
        self.process.stdin.write('\n')
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        """Returns its output."""
        self.process.communicate()
        self.said.seek(0)
        return self.said.read()


def onnx_steps(args, shape, dtype):
    """{name: OnnxStep}"""
    if not args.onnx_training or dtype != 'f32':
        return {}
    step = OnnxStep(args.onnx_training, shape, args.threads)
    if step.ready:
        return {'step onnx training': step}
    print(f'skipped: a step of ONNX Runtime ({step.close().strip()[-200:]})', file=sys.stderr)
    return {}


def measure(args, folder, shape, dtype):
    flops = dict(zip(('forward', 'step'), product_flops(*shape)))
    files = {}
    for what in flops:
        files[what] = f'{folder}/{what}.mlir'
        with open(files[what], 'w', encoding='utf-8') as file:
            file.write(module_text(shape, what == 'step', ADAMW, (STEP_DTYPES if what == 'step' else FORWARD_DTYPES)[dtype]))
    cases = {**torch_cases(shape, dtype), **(onnx_cases(shape, args.threads) if dtype == 'f32' else {})}
    numerics = ('portable', 'native') if dtype == 'f32' else ('native',)
    steps = onnx_steps(args, shape, dtype)
    times, ours, peak = {name: [] for name in (*cases, *steps)}, {what: {how: [] for how in numerics} for what in flops}, []
    for _ in range(ROUNDS):
        for how in numerics:
            line = json.loads(run([args.bench, f'--aot={args.aot}', f'--folder={folder}', f'--threads={args.threads}', '--rounds=5',
                                   f'--numerics={how}', *files.values()]))
            peak.append(line['peak'] * (2 if dtype == 'bf16' else 1))
            for what in flops:
                ours[what][how].append(line[f'{what}.mlir'])
        for name, call in cases.items():
            times[name].append(seconds_of(call))
        for name, step in steps.items():
            times[name].append(step())
    for step in steps.values():
        step.close()
    result = {}
    for what, operations in flops.items():
        medians = {how: statistics.median(r['seconds'] for r in lines) for how, lines in ours[what].items()}
        how = min(medians, key=medians.get)
        seconds, line = medians[how], ours[what][how][0]
        peers = {name.split(' ', 1)[1]: statistics.median(t) for name, t in times.items() if name.startswith(what)}
        best = min(peers, key=peers.get) if peers else None
        row = {'seconds': seconds, 'numerics': how, 'build': line['build'], 'launches': line['launches'],
               'of_peak': operations / seconds / statistics.median(peak), **peers}
        if best:
            row.update(best=best, ratio=peers[best] / seconds)
        result[what] = row
    return result


def has_dots():
    with open('/proc/cpuinfo', encoding='ascii') as file:
        return any('avx512_bf16' in line.split() for line in file if line.startswith('flags'))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ('aot', 'run', 'bench'):
        parser.add_argument(name)
    parser.add_argument('--shapes', default='1x128x768x12,1x512x768x12,8x128x768x12', help='batch x positions x width x heads')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--seed', type=int, default=int(time.time()))
    parser.add_argument('--no-values', action='store_true')
    parser.add_argument('--onnx-training', metavar='PYTHON')
    parser.add_argument('--dtypes', default='f32,bf16' if has_dots() else 'f32')
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    torch.set_num_threads(args.threads)
    results = {'threads': args.threads, 'seed': args.seed, 'torch': torch.__version__}
    for text, dtype in itertools.product(args.shapes.split(','), args.dtypes.split(',')):
        shape, case = tuple(int(part) for part in text.split('x')), text if dtype == 'f32' else f'{text} {dtype}'
        with tempfile.TemporaryDirectory() as folder:
            results[case] = {} if args.no_values else dict(zip(('error', 'gradient_error'), check_values(args, folder, shape, dtype)))
            results[case].update(measure(args, folder, shape, dtype))
        for what in ('forward', 'step'):
            row = results[case][what]
            peers = '  '.join(f'{name} {row[name] * 1e3:.2f}' for name in row if ' ' in name)
            print(f'{case} {what}: {row["seconds"] * 1e3:.2f} ms ({row["numerics"]}), {row["of_peak"]:.0%} of peak, '
                  f'{row["launches"]} launches, built in {row["build"]:.2f} s; {peers}; {row.get("ratio", 0):.2f}x')
    print(json.dumps({k: {a: short(b) for a, b in v.items()} if isinstance(v, dict) else v for k, v in results.items()}))


def short(value):
    if isinstance(value, dict):
        return {key: short(inner) for key, inner in value.items()}
    return float(f'{value:.4g}') if isinstance(value, float) else value


if __name__ == '__main__':
    main()
