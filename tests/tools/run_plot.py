# SPDX-License-Identifier: Apache-2.0
"""tessera-run plot: the drawn points are those of the metrics, for any file that a run may leave.

usage: run_plot.py TESSERA_RUN DIGITS.tsb SOURCE_ROOT
"""
import html.parser
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

import numpy as np

RUN, BUNDLE, ROOT = sys.argv[1:4]
DIGITS = f"{ROOT}/examples/digits"
SVG = "{http://www.w3.org/2000/svg}"
checks = 0


def need(condition, text):
    global checks
    checks += 1
    assert condition, text


def plot(metrics, out, code=0):
    done = subprocess.run([RUN, "plot", str(metrics), "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    need(done.returncode == code, f"{metrics} -o {out}: exit code {done.returncode}; expected {code}\n{done.stderr}")
    return done.stderr


def step(number, seconds, samples=64, **outputs):
    return json.dumps({"event": "step", "step": number, "samples": samples, "seconds": seconds, "outputs": outputs})


def write(folder, lines, end="\n"):
    path = folder / "m.jsonl"
    path.write_text("\n".join(lines) + (end if lines else ""), "utf-8")
    return path


def circles(path):
    """The drawn points by colour: (x, y)."""
    found = {}
    for circle in tree.parse(path).iter(SVG + "circle"):
        found.setdefault(circle.get("fill"), []).append((float(circle.get("cx")), float(circle.get("cy"))))
    return found


def need_line(points, expected, what, logarithmic=False):
    """The drawn points are an affine image of the expected ones, upside down."""
    drawn, want = np.array(points), np.array(expected, dtype=float)
    need(drawn.shape == want.shape, f"{what}: {len(points)} points; expected {len(expected)}")
    if logarithmic:
        want[:, 1] = np.log10(want[:, 1])
    for axis, sign in ((0, 1), (1, -1)):
        slope, offset = np.polyfit(want[:, axis], drawn[:, axis], 1)
        need(slope * sign > 0, f"{what}: axis {axis} runs the wrong way")
        error = np.abs(slope * want[:, axis] + offset - drawn[:, axis]).max()
        need(error < 0.11, f"{what}: axis {axis} is off by {error} pixels")


def check_points(folder):
    values = [(5 * k + 1, 3.0 - 0.1 * k + 0.3 * math.sin(k)) for k in range(20)]
    path = write(folder, [step(s, 0.5 * s, loss=v) for s, v in values])
    plot(path, folder / "a.svg")
    drawn = circles(folder / "a.svg")
    rates = [p for p in drawn["#1f5fa8"] if p[1] > 280]
    need_line([p for p in drawn["#1f5fa8"] if p[1] < 280], values, "loss")
    need(len(rates) == 19 and max(abs(p[1] - rates[0][1]) for p in rates) < 0.1, "a steady rate is a level line")
    path = write(folder, [step(s, s, loss=10 ** (-s / 4)) for s in range(1, 21)])
    plot(path, folder / "a.svg")
    need_line([p for p in circles(folder / "a.svg")["#1f5fa8"] if p[1] < 280], [(s, 10 ** (-s / 4)) for s in range(1, 21)], "five decades", True)
    # A resumed run repeats steps 8 to 10: its values replace those of the run before.
    first = [step(s, s, loss=float(s)) for s in range(1, 11)]
    again = ['{"event":"resume","generation":1,"epoch":1,"step":7,"state":"00","damaged":0}'] + [step(s, s - 7.5, loss=100.0 - s) for s in range(8, 13)]
    plot(write(folder, first + again), folder / "a.svg")
    want = [(s, float(s)) for s in range(1, 8)] + [(s, 100.0 - s) for s in range(8, 13)]
    need_line([p for p in circles(folder / "a.svg")["#1f5fa8"] if p[1] < 280], want, "two runs")
    # A run that resumes an older step drops everything after it: evaluations at other steps, throughput, outputs that it does not have.
    def evaluation(number, **outputs):
        return json.dumps({"event": "eval", "step": number, "rows": 2, "outputs": outputs})

    branch = [step(s, s, loss=float(s), gone=None if s > 7 else 1.0) for s in range(1, 11)] + [evaluation(s, loss=50.0 + s, old=1.0) for s in (4, 10)]
    for start in ('{"event":"resume","generation":1,"epoch":1,"step":3,"state":"00","damaged":0}',), ():
        first_step = 4 if start else 1
        plot(write(folder, [*branch, *start, step(first_step, 0.5, loss=9.0), step(first_step + 1, 1, loss=8.0)]), folder / "a.html")
        tables = Tables()
        tables.feed((folder / "a.html").read_text("utf-8"))
        want = [["loss", "training", str(first_step + 1)], ["samples/s", "throughput", "3" if start else "1"]]
        want += [["gone", "training", "3"]] if start else []
        need(sorted(r[:3] for r in tables.rows if len(r) == 6 and r[0] != "value") == sorted(want), f"an abandoned branch: {tables.rows}")
        text = (folder / "a.html").read_text("utf-8")
        need(f"up to step {first_step + 1}; 0 values" in text and ">old<" not in text, f"an abandoned branch: {text[:3000]}")
    # Values that are not finite are gaps: JSON has null for them.
    holes = [step(s, s, loss=None if s in (4, 5) else float(s)) for s in range(1, 9)]
    plot(write(folder, holes), folder / "a.svg")
    need_line([p for p in circles(folder / "a.svg")["#1f5fa8"] if p[1] < 280], [(s, s) for s in (1, 2, 3, 6, 7, 8)], "a gap")
    line = next(p.get("d") for p in tree.parse(folder / "a.svg").iter(SVG + "path") if p.get("stroke") == "#1f5fa8")
    need(line.count("M") == 2, f"the line is drawn over a gap: {line}")
    # Very many points: every column has its range, and the file stays small.
    path = write(folder, [step(s, s / 1000, loss=float(s % 97)) for s in range(1, 60001)])
    plot(path, folder / "a.svg")
    need((folder / "a.svg").stat().st_size < 200000, f"{(folder / 'a.svg').stat().st_size} bytes for 60,000 steps")
    lines = [p.get("d") for p in tree.parse(folder / "a.svg").iter(SVG + "path") if p.get("stroke") == "#1f5fa8"]
    heights = [float(y) for y in re.findall(r"[ML]\d+ ([\d.]+)", lines[0])]
    need(max(heights) - min(heights) > 180, "the range of the values is lost")


def ticks(path):
    """The labels of the ticks of values, from the bottom, and of steps."""
    texts = [t for t in tree.parse(path).iter(SVG + "text") if float(t.get("y")) < 280 and t.get("class") is None]
    return [[float(t.text) for t in texts if t.get("text-anchor") == anchor and re.fullmatch(r"[-+.e0-9]+", t.text)] for anchor in ("end", "middle")]


def check_ranges(folder):
    """Axes whose range is a few units in the last place, or that of all f64: ticks are few, and every number is finite."""
    last = 2 ** 53
    for what, lines in (
            ("a steady throughput", [step(s, s * 0.1, loss=1.0) for s in (1, 2, 3)]),
            ("neighbours", [step(1, 1, loss=100.0), step(2, 2, loss=math.nextafter(100.0, 200))]),
            ("least numbers", [step(1, 1, loss=0.0), step(2, 2, loss=5e-324)]),
            ("all decades", [step(1, 1, loss=5e-324), step(2, 2, loss=9e307)]),
            ("the range of f64", [step(1, 1, loss=-9e307), step(2, 2, loss=9e307)]),
            ("the last step", [step(last, 1, loss=1.0)]),
            ("the last steps", [step(last - 1, 1, loss=1.0), step(last, 2, loss=2.0)]),
            ("all steps", [step(0, 1, loss=1.0), step(last, 2, loss=2.0)])):
        plot(write(folder, lines), folder / "a.svg")
        text = (folder / "a.svg").read_text("utf-8")
        need(len(text) < 20000 and not re.search(r"\b(nan|inf)\b", text), f"{what}: {text[:2000]}")
        for side in ticks(folder / "a.svg"):
            need(1 <= len(side) <= 12 and side == sorted(side), f"{what}: ticks {side}")
    plot(write(folder, [step(s, s, loss=0.1 * s) for s in range(1, 22)]), folder / "a.svg")
    need(ticks(folder / "a.svg") == [[0.5, 1, 1.5, 2], [5, 10, 15, 20]], f"ticks: {ticks(folder / 'a.svg')}")


def check_files(folder):
    need("is empty" in plot(write(folder, []), folder / "a.svg"), "an empty file is not told")
    tree.parse(folder / "a.svg")
    said = plot(write(folder, [step(1, 1, loss=1.0), '{"event":"step","step":2,"sam'], end=""), folder / "a.svg")
    need("the last line is unfinished" in said, f"a torn line is not told: {said}")
    said = plot(write(folder, [step(1, 1, loss=1.0), "not JSON", "[]", '{"event":5}', '{"event":"step"}', step(2, 2, loss=2.0)]), folder / "a.svg")
    need("4 of 6 lines are not events" in said, said)
    for lines in (['{"event":"step","step":3}'], ['{"event":"step","step":3,"outputs":[]}'], ['{"event":"step","step":3,"outputs":{"loss":"x"}}'],
                  ['{"event":"eval","step":3,"rows":2,"outputs":{"loss":0.5}}'], ['{"event":"save","step":3}'], ['{"event":"later","what":true}'],
                  [step(1, 1, loss=1.0)], [step(1, 1, loss=0.0), step(2, 2, loss=0.0)], [step(1, 1, loss=1e300), step(2, 1, loss=-1e300)],
                  [step(1, 1, **{"<script>&\"'": 1.0})], [step(1, 1, **{f"o{k}": 1.0 for k in range(40)})]):
        for name in ("a.svg", "a.html"):
            plot(write(folder, lines), folder / name)
        tree.parse(folder / "a.svg")
        text = (folder / "a.html").read_text("utf-8")
        need("<script" not in text and "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "nan" not in text.lower().replace("finance", ""),
             f"the report of {lines}")
    for count in (256, 257, 300):
        many = [step(1, 1, **{f"o{k}": float(k) for k in range(count)}), step(2, 1, **{f"o{k}": float(k) for k in range(count)})]
        said = plot(write(folder, many), folder / "a.html")
        want = f"'{folder}/m.jsonl' has more than 256 series of values; 'o256' and those after it are left out"
        need((want in said) == (count > 256), f"{count} series: {said}")
        need((folder / "a.html").read_text("utf-8").count("<td>training</td>") == 256, f"{count} series are not drawn as 256")
    need("none is an event" in plot(f"{ROOT}/README.md", folder / "x.svg", code=8), "another file")
    need("No such file" in plot(folder / "none", folder / "x.svg", code=7), "no file")
    need("contains the input" in plot(folder, folder / "x.svg", code=6), "a directory")
    for name in ("x.png", "x", ".svg", "x.svg.gz"):
        need("expected a name that ends in .svg or .html" in plot(write(folder, [step(1, 1, loss=1.0)]), folder / name if name != ".svg" else ".svg", code=6), name)
    need("are one file" in plot(folder / "m.jsonl", folder / "m.jsonl", code=6), "over its input")
    need("x.svg" not in [p.name for p in folder.iterdir()], "a refused call has written")
    for command, text in ((["plot"], "plot: 0 files"), (["plot", "m", "n", "-o", "x.svg"], "plot: 2 files"), (["plot", "m"], "plot: -o is missing"),
                          (["plot", "m", "-o", "x.svg", "--steps", "3"], "--steps does not apply to plot"),
                          (["plot", "m", "-o", "x.svg", "--allow-network-fs"], "--allow-network-fs does not apply to plot")):
        done = subprocess.run([RUN, *command], stderr=subprocess.PIPE, text=True, check=False)
        need(done.returncode == 6 and text in done.stderr, f"{command}: {done.returncode} {done.stderr}")


class Tables(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "path", "circle", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def check_run(folder):
    """A real run that is resumed: the report has what the metrics have."""
    data = [f"--data={name}={DIGITS}/{which}-{kind}.npy" for name, which, kind in (
        ("images", "train", "images"), ("labels", "train", "labels"), ("test_images", "test", "images"), ("test_labels", "test", "labels"))]
    for steps in (60, 90):
        subprocess.run([RUN, BUNDLE, *data, "--quiet", "--steps", str(steps), "--eval-every", "15", "--save-every", "30", "--keep-best", "min:loss",
                        "--state-dir", folder / "S", "--metrics", folder / "run.jsonl"], check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "run.jsonl").read_text("utf-8").splitlines()]
    plot(folder / "run.jsonl", folder / "run.svg")
    evals = [(e["step"], e["outputs"]["loss"]) for e in events if e["event"] == "eval"]
    losses = [e["outputs"]["loss"] for e in events if e["event"] == "step"]
    both = losses + [value for _, value in evals]
    drawn = [p for p in circles(folder / "run.svg")["#c2410c"] if p[1] < 280]
    need_line(drawn, evals, "evaluations", max(both) > 100 * min(both))
    plot(folder / "run.jsonl", folder / "run.html")
    tables = Tables()
    tables.feed((folder / "run.html").read_text("utf-8"))
    row = next(r for r in tables.rows if r[:2] == ["loss", "training"])
    need(row[2] == "90" and row[3] == f"{losses[-1]:.6g}" and row[4] == f"{min(losses):.6g}" and row[5] == f"{max(losses):.6g}", f"{row}")
    for what in ("save", "resume", "best"):
        want = [e["step"] for e in events if e["event"] == what]
        got = [int(r[0]) for r in tables.rows if len(r) == 3 and r[1] == what]
        need(want and got == want[::-1], f"{what}: {got}; expected {want[::-1]}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_points(folder)
        check_ranges(folder)
        check_files(folder)
        check_run(folder)
    print(f"{checks} checks, 0 failed, 0 skipped")


main()
