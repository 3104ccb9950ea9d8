#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gpt2.mlir of other sizes, on standard output: its lines of types are written again, the program stays.

usage: sizes.py [--batch N] [--positions N] [--width N] [--heads N] [--vocabulary N] [--window N]

What is not given is as in gpt2.mlir. A head has width / heads numbers, the perceptron four times the width.
"""
import argparse
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parent / "gpt2.mlir"
BEGIN, END = "// ---- sizes: ", "// ---- end of sizes ----\n"
SIZES = {"batch": 16, "positions": 1024, "width": 768, "heads": 12, "vocabulary": 50304, "window": 256}

TYPES = (
    ("rows", "{batch}x{row_bytes}xui8"), ("losses", "{batch}x{positions}xf32"), ("positions", "{positions}xi32"), ("window", "{window}xi64"),
    ("window_places", "{window}xi32"), ("window_hits", "{window}xi1"), ("window_scores", "{window}x{vocabulary}xf32"),
    ("next", "{vocabulary}xf32"), ("x", "?x?x{width}xf32"), ("h", "?x?x{width}xbf16"), ("flat", "?x{width}xbf16"), ("row", "{width}xf32"),
    ("row16", "{width}xbf16"), ("table", "{vocabulary}x{width}xf32"), ("table16", "{vocabulary}x{width}xbf16"),
    ("logits", "?x?x{vocabulary}xbf16"), ("scores", "?x{vocabulary}xbf16"), ("scores32", "?x{vocabulary}xf32"),
    ("place_table", "{positions}x{width}xf32"), ("place_rows", "?x{width}xf32"), ("split", "?x?x{heads}x{head}xbf16"),
    ("heads", "?x{heads}x?x{head}xbf16"), ("qkv", "?x?x{three}xbf16"), ("qkv_w", "{width}x{three}xf32"), ("qkv_w16", "{width}x{three}xbf16"),
    ("qkv_b", "{three}xf32"), ("qkv_b16", "{three}xbf16"), ("out_w", "{width}x{width}xf32"), ("out_w16", "{width}x{width}xbf16"),
    ("up", "?x?x{four}xbf16"), ("up_w", "{width}x{four}xf32"), ("up_w16", "{width}x{four}xbf16"), ("up_b", "{four}xf32"),
    ("up_b16", "{four}xbf16"), ("down_w", "{four}x{width}xf32"), ("down_w16", "{four}x{width}xbf16"),
)


def lines(sizes):
    width, heads = sizes["width"], sizes["heads"]
    if width % heads:
        raise SystemExit(f"a width of {width} is not divided by {heads} heads")
    if sizes["window"] > sizes["positions"]:
        raise SystemExit(f"a window of {sizes['window']} has more than the {sizes['positions']} positions")
    all_of = {**sizes, "head": width // heads, "three": 3 * width, "four": 4 * width, "row_bytes": 2 * (sizes["positions"] + 1)}
    text = "".join(f"!{name} = tensor<{form.format(**all_of)}>\n" for name, form in TYPES)
    return text + f"#size = [{sizes['batch']}, {sizes['positions']}]\n"


def source(sizes):
    text = SOURCE.read_text("utf-8")
    before, rest = text.split(BEGIN, 1)
    title, rest = rest.split("\n", 1)
    old, after = rest.split(END, 1)
    if old != lines(SIZES):
        raise SystemExit(f"{SOURCE.name}: its lines of sizes are not those of {SIZES}")
    return f"{before}{BEGIN}{title}\n{lines(sizes)}{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N")
    print(source(vars(parser.parse_args())), end="")


if __name__ == "__main__":
    main()
