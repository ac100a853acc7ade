"""The demo's table and the same as an SVG picture."""

import math
from dataclasses import dataclass


@dataclass
class Row:
    name: str
    ttft_s: float
    prompt_tokens: int
    cached_tokens: int
    loaded_bytes: int = 0
    load_s: float = 0.0
    ceiling: float = 0.0  # bytes a second of the plain copy or read; 0: does not apply
    ceiling_name: str = ""

    @property
    def rate(self):
        return self.loaded_bytes / self.load_s if self.load_s > 0 else 0.0


def milliseconds(seconds):
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.1f} ms"


def table(rows):
    lines = [f"  {'':<26}{'TTFT':>10}  {'faster':>8}  {'from cache':>13}  {'loaded':>9}  "
             f"{'GB/s':>6}  beside a plain copy or read"]
    cold = rows[0].ttft_s
    for row in rows:
        cached = f"{row.cached_tokens:,}/{row.prompt_tokens:,}"
        loaded = f"{row.loaded_bytes / 1e6:.1f} MB" if row.loaded_bytes else "-"
        rate = f"{row.rate / 1e9:.2f}" if row.rate else "-"
        share = ""
        if row.rate and row.ceiling:
            share = f"{row.rate / row.ceiling:.0%} of {row.ceiling_name}"
            share += f" ({row.ceiling / 1e9:.2f} GB/s)"
        lines.append(f"  {row.name:<26}{milliseconds(row.ttft_s):>10}  "
                     f"{cold / row.ttft_s:>7,.1f}x  {cached:>13}  {loaded:>9}  {rate:>6}  {share}")
    return "\n".join(lines)


def svg(rows, title, note):
    """Horizontal bars on a logarithmic scale, one a row."""
    width, left, right, top, step = 860, 215, 150, 76, 44
    low = 10 ** math.floor(math.log10(min(row.ttft_s for row in rows) * 1e3))
    high = 10 ** math.ceil(math.log10(max(row.ttft_s for row in rows) * 1e3))
    span = max(math.log10(high / low), 1)

    def x_of(ms):
        return left + (width - left - right) * math.log10(ms / low) / span

    height = top + step * len(rows) + 62
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="24" y="32" font-size="18" font-weight="bold">{_escape(title)}</text>',
           f'<text x="24" y="54" fill="#555555">{_escape(note)}</text>']
    bottom = top + step * len(rows)
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        x = x_of(10 ** power)
        label = f"{10 ** power / 1e3:g} s" if power >= 3 else f"{10 ** power:g} ms"
        out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 20}" fill="#555555" text-anchor="middle">'
                   f'{label}</text>')
    for i, row in enumerate(rows):
        y = top + step * i + 8
        length = max(x_of(row.ttft_s * 1e3) - left, 2)
        colour = "#9a9a9a" if i == 0 else "#1f6f8b"
        times = "" if i == 0 else f"  ({rows[0].ttft_s / row.ttft_s:,.0f}x)"
        out.append(f'<text x="{left - 10}" y="{y + 19}" text-anchor="end">'
                   f'{_escape(row.name)}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="28" fill="{colour}"/>')
        out.append(f'<text x="{left + length + 8:.1f}" y="{y + 19}">'
                   f'{milliseconds(row.ttft_s)}{times}</text>')
    out.append(f'<text x="{left}" y="{bottom + 46}" fill="#555555">time to first token, '
               'logarithmic scale</text>')
    return "\n".join([*out, "</svg>", ""])


def _escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
