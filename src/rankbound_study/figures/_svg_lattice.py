"""Smaller SVG files: positions on a lattice of hundredths of a point (1/7200 inch), paths as relative moves."""

import re


def on_lattice(text: str) -> str:
    """Move the straight lines and marks of a file to the lattice."""
    text = re.sub(
        r'(<use [^>]*) x="([\d.\-]+)" y="([\d.\-]+)"',
        lambda match: (
            f'{match[1]} x="{_hundredths(round(float(match[2]) * 100))}"'
            f' y="{_hundredths(round(float(match[3]) * 100))}"'
        ),
        text,
    )
    return re.sub(r' d="([ML\d.\s\-]+?z?\s*)"', lambda match: f' d="{short_path(match.group(1))}"', text)


def short_path(path: str) -> str:
    """Rewrite a path of moves and straight lines, `M 1.5 2 L 1.5 4 z`, as relative moves: `M1.5 2v2z`."""
    words = path.split()
    closed = words[-1] == "z"
    parts, x, y = [], 0, 0
    for command, new_x, new_y in zip(*[iter(words[: len(words) - closed])] * 3, strict=True):
        # Differences of rounded positions, so rounding errors do not accumulate along a path.
        right, down = round(float(new_x) * 100) - x, round(float(new_y) * 100) - y
        x, y = x + right, y + down
        if command == "M":
            parts.append(f"M{_hundredths(x)} {_hundredths(y)}")
        elif down == 0:
            parts.append(f"h{_hundredths(right)}")
        elif right == 0:
            parts.append(f"v{_hundredths(down)}")
        else:
            parts.append(f"l{_hundredths(right)} {_hundredths(down)}")
    return "".join(parts) + ("z" if closed else "")


def _hundredths(value: int) -> str:
    return f"{value / 100:.2f}".rstrip("0").rstrip(".")
