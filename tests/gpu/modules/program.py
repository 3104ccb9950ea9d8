# SPDX-License-Identifier: Apache-2.0
"""What is packed of the product: tessera-run and what it links, and other programs so; bundles; many of them at a time."""
import concurrent.futures
import lzma
import pathlib
import shutil
import subprocess

SYSTEM = ('ld-linux', 'libc.so', 'libm.so', 'libpthread', 'libdl', 'linux-vdso', 'librt.so')


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f'{" ".join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}')
    return done.stdout


def copy_program(program, out):
    """A program and the libraries beside it that are not the system's own."""
    (out / 'lib').mkdir(parents=True, exist_ok=True)
    shutil.copy(program, out / program.name)
    if shutil.which('strip'):  # of what only debuggers read
        call('strip', out / program.name)
    for line in call('ldd', program).splitlines():
        words = line.split()
        if '=>' in words and not words[0].startswith(SYSTEM):
            shutil.copy(words[2], out / 'lib' / words[0])


def compress(path):
    """PATH.xz instead: machine code, and what lies between the parts of a bundle, take a fifth so."""
    pathlib.Path(f'{path}.xz').write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()


def together(jobs, count):
    """What these functions return, in their order; so many run at a time. Where one fails, those that have not begun never do."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda job: job(), jobs))
