#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models that torch.onnx exports are trained by a bundle and by PyTorch, from the same weights on the same data, and the losses compared.

torch_training.py AOT RUN; exit code 77 without torch or its exporter.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx  # noqa: F401: the exporter needs it
    import onnxscript  # noqa: F401
    import torch
    from torch import nn
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
STEPS, TOLERANCE = 50, 1e-4  # both in f32: after 50 steps the rounding errors of other orders of sums have grown to at most this


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(20, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.b, self.m = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16, eps=1e-3, momentum=0.2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.n(self.a(x)))
        x = torch.relu(self.m(self.b(x)))
        return self.head(x.mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self, positions=12, width=32, heads=4, words=40):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.randn(positions, width) / 10)
        self.heads, self.norm, self.last = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down, self.head = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions
        batch, positions, width = x.shape
        normed = self.norm(x)
        q, k, v = (part(normed).reshape(batch, positions, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, positions, width))
        x = x + self.down(nn.functional.gelu(self.up(self.last(x))))
        return self.head(x)


def run(folder, *words):
    process = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    if process.returncode:
        sys.exit(f'FAILED: {words}\n{process.stderr[-3000:]}')
    return process.stdout + process.stderr


def losses_of(folder, name):
    records = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [record['outputs']['loss'] for record in records if 'loss' in record.get('outputs', {})]


def check(what, model, x, labels, expression, optimizer, make_optimizer, *flags):
    folder = pathlib.Path(tempfile.mkdtemp(dir=root))
    model.eval()
    # The exporter's optimizer would fold batch norm into the convolution, share equal parameters and make initializers of constants.
    torch.onnx.export(model, (x,), folder / 'm.onnx', input_names=['x'], output_names=['logits'], dynamo=True, optimize=False,
                      external_data=False, verbose=False)
    np.save(folder / 'x.npy', x.numpy())
    np.save(folder / 'labels.npy', labels.numpy())
    run(folder, AOT, 'build', 'm.onnx', '-o', 't.tsb', '--target=cpu:x86-64-v3', '--train', expression, '--optimizer', optimizer, *flags)
    run(folder, RUN, 't.tsb', '--data', 'x=x.npy', '--data', 'labels=labels.npy', '--steps', str(STEPS), '--state-dir', 'S', '--metrics',
        'log.jsonl')
    ours = losses_of(folder, 'log.jsonl')
    model.train()
    step, theirs = make_optimizer(model.parameters()), []
    for _ in range(STEPS):
        step.zero_grad()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        loss.backward()
        step.step()
        theirs.append(loss.item())
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    moved = abs(theirs[-1] - theirs[0]) / theirs[0]
    print(f'{what}: loss {theirs[0]:.6f} to {theirs[-1]:.6f}, relative difference at most {worst:.1e}')
    if len(ours) != STEPS or worst > TOLERANCE or moved < 0.05:
        sys.exit(f'FAILED: {what}: {len(ours)} losses, {ours[-1]} and {theirs[-1]}')
    return folder, model


def main():
    torch.manual_seed(3)
    torch.set_num_threads(2)
    adamw = ('adamw(lr=1e-2, weight_decay=0.01)', lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.01))
    sgd = ('sgd(lr=0.05, momentum=0.9)', lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
    x, labels = torch.randn(32, 20), torch.randint(0, 5, (32,))
    check('perceptron', Perceptron(), x, labels, 'cross_entropy(logits, labels)', *adamw)
    images = torch.randn(16, 3, 12, 12)
    folder, model = check('convolutions with batch norm', Convolutions(), images, labels[:16], 'cross_entropy(logits, labels)', *sgd)
    check_statistics(folder, model)
    tokens = torch.randint(0, 40, (4, 12))
    check('transformer', Transformer(), tokens, torch.roll(tokens, -1, 1), 'cross_entropy(reshape(logits, shape=[-1, 40]), '
          'reshape(labels, shape=[-1]))', 'adamw(lr=1e-3)', lambda p: torch.optim.AdamW(p, lr=1e-3), '--data-type', 'labels=i64[4, 12]')


def check_statistics(folder, model):
    run(folder, AOT, 'bake', 't.tsb', '--state-dir', 'S', '--export-params', 'p.safetensors')
    data = (folder / 'p.safetensors').read_bytes()
    size = int.from_bytes(data[:8], 'little')
    for name, tensor in json.loads(data[8:8 + size]).items():
        if 'running' not in name:
            continue
        begin, end = tensor['data_offsets']
        ours = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32)
        theirs = dict(model.named_buffers())[name].numpy()
        if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
            sys.exit(f'FAILED: {name}: {ours} and {theirs}')


with tempfile.TemporaryDirectory() as root:
    main()
