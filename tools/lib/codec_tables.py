"""The generated parts of docs/codecs.md: tables and pictures of `quire eval` on both models.

usage: tools/codec-tables [--from DIR] [--tokens N]

Without --from, both models are judged with the release build (half an hour on two cores), which
leaves MODEL.json and MODEL.svg in build/codec-tables; with it, what lies in DIR is used.
"""

import argparse
import json
import pathlib
import shutil
import subprocess

import ui

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "codecs.md"
MODELS = {"smollm2": "SmolLM2-135M", "gemma3": "Gemma-3-270M"}
BEGIN, END = "<!-- tables: tools/codec-tables -->\n", "<!-- end of tables -->\n"


def judge(model, tokens, folder):
    paths = subprocess.run([str(ROOT / "tools" / "models"), "fetch", model], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    binary = ROOT / "build" / "release" / "quire"
    if not binary.exists():
        raise ui.Failure(f"{binary} is missing; run tools/build first")
    folder.mkdir(parents=True, exist_ok=True)
    # From the beginning of the text whose end is judged.
    sidecar = folder / f"{model}.sidecar"
    subprocess.run([str(binary), "calibrate", paths[0], "--out", str(sidecar)], check=True,
                   stdout=subprocess.DEVNULL)
    # Only what the tables show.
    command = [str(binary), "eval", paths[0], "--tokens", str(tokens), "--greedy", "0",
               "--keys", "0", "--sidecar", str(sidecar), "--json", "--svg",
               str(folder / f"{model}.svg")]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False)
    if not done.stdout:  # a missed bar gives an exit status, and rows all the same
        raise ui.Failure(f"quire eval failed on {model}; its message is above")
    (folder / f"{model}.json").write_text(done.stdout)


def number(value):
    """Two digits that count, without an exponent that people have to read."""
    if value == 0:
        return "0"
    text = f"{value:.1e}" if value < 1e-4 else f"{value:.2g}"
    return text.replace("e-0", "e-").lstrip("0") if text.startswith("0.") else text


def rows_table(rows):
    lines = ["| cache | bits | with sinks, tail | KL mean | p99 | max | top-1 | perplexity |",
             "|---|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda r: (r["bits"], r["kl_mean"])):
        name = f"`{row['cache']}`" + (" (peer)" if row["peer"] else "")
        if row.get("noise_floor"):
            name += " (noise of 16 bits)"
        lines.append(f"| {name} | {row['bits']:.2f} | {row['total_bits']:.2f} "
                     f"| {number(row['kl_mean'])} | {number(row['kl_p99'])} "
                     f"| {number(row['kl_max'])} | {100 * row['top1']:.1f} % "
                     f"| {row['perplexity_ratio']:.4f} |")
    return "\n".join(lines) + "\n"


def bars_table(bars):
    lines = ["| what | measured | wanted at most | |", "|---|---|---|---|"]
    for bar in bars:
        what = bar["what"].split(": ", 1)[-1]
        measured = bar.get("ratio", bar["measured"])
        lines.append(f"| {what} | {'' if measured is None else number(measured)} | {bar['bar']} "
                     f"| {'' if bar['ok'] else 'missed'} |")
    return "\n".join(lines) + "\n"


def section(model, title, judged):
    return (f"### {title}\n\n"
            f"{judged['tokens']} tokens of {judged['text']}, the second half judged.\n\n"
            f"![Divergence over bits, {title}](codecs-{model}.svg)\n\n"
            f"{rows_table(judged['rows'])}\n"
            f"{bars_table(judged['bars'])}\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("--from", dest="folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=2048)
    options = parser.parse_args()
    folder = options.folder or ROOT / "build" / "codec-tables"
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    tables = ""
    for model, title in MODELS.items():
        if options.folder is None:
            judge(model, options.tokens, folder)
        try:
            judged = json.loads((folder / f"{model}.json").read_text())
        except FileNotFoundError as missing:
            raise ui.Failure(f"{missing.filename} is missing; run without --from") from None
        tables += section(model, title, judged)
        shutil.copy(folder / f"{model}.svg", PAGE.parent / f"codecs-{model}.svg")
    PAGE.write_text(before + BEGIN + tables + END + after)
    ui.say(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    ui.run_main(main)
