#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training steps through a scan with PyTorch on CPU: a recurrent net, and one that attends to a memory at each position.

usage: recurrent.py TESSERA_AOT MODEL_BENCH [--before TESSERA_AOT] [--threads N] [--rounds N]

Times in turns, medians: ours (MODEL_BENCH), that of another build of the compiler if --before names one, PyTorch eager (a loop of the same
ops) and, for the recurrent net, torch.nn.RNN. A step is the mean square of all states, its gradients, SGD (values:
`tests/compiler/graph/saved.py`, the oracle). Prints a row per case, then one JSON object. Exits with 77 without PyTorch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)

BATCH, POSITIONS, WIDTH, MEMORY = 32, 64, 256, 48
RATE = 0.01


def tensor(*shape):
    return f'tensor<{"".join(f"{d}x" for d in shape)}f32>'


def text(attends):
    state, rows, w = tensor(BATCH, WIDTH), tensor(POSITIONS, BATCH, WIDTH), tensor(WIDTH, WIDTH)
    memory, query, scores = tensor(BATCH, MEMORY, WIDTH), tensor(BATCH, 1, WIDTH), tensor(BATCH, 1, MEMORY)
    read = f'%p = tessera.matmul %c, %u : {state}, {w} -> {state}\n'
    if attends:
        read += f'''%q = tessera.reshape %p : {state} -> {query}
%s = tessera.matmul %q, %m {{transpose_b = true}} : {query}, {memory} -> {scores}
%a = tessera.softmax_safe %s {{axis = 2 : i64}} : {scores}
%v = tessera.matmul %a, %m : {scores}, {memory} -> {query}
%o = tessera.reshape %v : {query} -> {state}
'''
    return f'''module @recurrent {{
func.func @f(%x: {rows} {{tessera.data = "x"}}, %m: {memory} {{tessera.name = "m"}}) -> (tensor<f32> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
%w = tessera.param "w" init = #tessera.uniform<-0.05, 0.05> : {w}
%u = tessera.param "u" init = #tessera.uniform<-0.05, 0.05> : {w}
%in = tessera.matmul %x, %w : {rows}, {w} -> {rows}
%zero = tessera.constant dense<0.0> : {state}
%h:2 = tessera.scan %zero, %in {{
^bb0(%c: {state}, %r: {state}):
{read}%y = tessera.add %{"o" if attends else "p"}, %r : {state}, {state} -> {state}
%t = tessera.tanh %y : {state}
tessera.yield %t, %t : {state}, {state}
}} {{carried = 1 : i64}} : {state}, {rows} -> {state}, {rows}
%k = tessera.mul %h#1, %h#1 : {rows}, {rows} -> {rows}
%loss = tessera.mean %k {{axes = [0, 1, 2]}} : {rows} -> tensor<f32>
tessera.minimize %loss {{optimizer = #tessera.sgd<lr = {RATE}, momentum = 0.0, weight_decay = 0.0>}} : tensor<f32>
return %loss : tensor<f32>
}}
}}
'''


def ours(args, aot, folder, names):
    done = subprocess.run([args.bench, f'--aot={aot}', f'--folder={folder}', f'--threads={args.threads}', '--rounds=5',
                           *(f'{folder}/{name}.mlir' for name in names)], capture_output=True, text=True, check=True)
    line = json.loads(done.stdout)
    return {name: line[f'{name}.mlir'] for name in names}


def peers():
    """{name: {peer: call}}"""
    torch.manual_seed(0)
    x, m = torch.randn(POSITIONS, BATCH, WIDTH), torch.randn(BATCH, MEMORY, WIDTH)
    w, u = (torch.nn.Parameter(torch.empty(WIDTH, WIDTH).uniform_(-0.05, 0.05)) for _ in range(2))
    rnn = torch.nn.RNN(WIDTH, WIDTH, bias=False)

    def step(states, parameters):
        (states() ** 2).mean().backward()
        with torch.no_grad():
            for p in parameters:
                p -= RATE * p.grad
                p.grad = None

    def loop(attends):
        rows, c, states = x @ w, torch.zeros(BATCH, WIDTH), []
        for row in rows:
            p = c @ u
            if attends:
                p = (torch.softmax(p[:, None] @ m.transpose(1, 2), -1) @ m)[:, 0]
            c = torch.tanh(p + row)
            states.append(c)
        return torch.stack(states)

    return {'recurrent': {'loop': lambda: step(lambda: loop(False), (w, u)),
                          'nn.RNN': lambda: step(lambda: rnn(x)[0], tuple(rnn.parameters()))},
            'attending': {'loop': lambda: step(lambda: loop(True), (w, u))}}


def seconds_of(call):
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 0.3 or count < 3:
        call()
        count += 1
    return (time.perf_counter() - begin) / count


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('aot')
    parser.add_argument('bench')
    parser.add_argument('--before')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    torch.set_num_threads(args.threads)
    others, times, last = peers(), {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in others:
            with open(f'{folder}/{name}.mlir', 'w', encoding='utf-8') as file:
                file.write(text(name == 'attending'))
        for _ in range(args.rounds):
            for who, aot in (('ours', args.aot), ('before', args.before)):
                for name, row in (ours(args, aot, folder, others) if aot else {}).items():
                    times.setdefault((name, who), []).append(row['seconds'])
                    last[name, who] = row
            for name, calls in others.items():
                for peer, call in calls.items():
                    times.setdefault((name, peer), []).append(seconds_of(call))
    result = {}
    for name in others:
        row = {who: statistics.median(t) for (n, who), t in times.items() if n == name}
        row.update(build=last[name, 'ours']['build'], workspace=last[name, 'ours'].get('workspace'),
                   ratio=min(row[p] for p in others[name]) / row['ours'])
        result[name] = row
        print(f'{name}: ' + '  '.join(f'{k} {v * 1e3:.2f} ms' for k, v in row.items() if k in ('ours', 'before', *others[name])) +
              f'  {row["ratio"]:.2f}x of the fastest peer')
    print(json.dumps({'threads': args.threads, **result}))


main()
