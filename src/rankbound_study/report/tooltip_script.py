"""The script of the page's tooltips: the title of the part under the pointer and, on a curve, the nearest values.

Without the script, browsers show the drawings' own titles.
"""

TOOLTIP_SCRIPT = r"""
{
const tip = document.createElement("div"), ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
tip.className = "tip"; tip.hidden = true; tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
ring.classList.add("ring"); ring.setAttribute("r", 3);

const hide = () => { tip.hidden = true; ring.remove(); };

// The lines of a path as lists of [x, y]; for a curved path, points along it.
const strokes = path => {
  const text = path.getAttribute("d") || "", lines = [];
  if (/[CQ]/.test(text)) {
    const length = path.getTotalLength(), steps = [...Array(33).keys()].map(step => step / 32 * length);
    return [steps.map(at => path.getPointAtLength(at)).map(({x, y}) => [x, y])];
  }
  let x = 0, y = 0;
  for (const [, move, rest] of text.matchAll(/([MLlhvz])([^MLlhvz]*)/g)) {
    const numbers = rest.trim().split(/[\s,]+/).map(Number);
    if (move === "z") [x, y] = lines.at(-1)[0];
    else if (move === "M" || move === "L") [x, y] = numbers;
    else if (move === "h") x += numbers[0];
    else if (move === "v") y += numbers[0];
    else { x += numbers[0]; y += numbers[1]; }
    if (move === "M") lines.push([]);
    lines.at(-1).push([x, y]);
  }
  return lines;
};

const toSegment = (x, y, [a, b], [c, d]) => {
  const along = ((x - a) * (c - a) + (y - b) * (d - b)) / ((c - a) ** 2 + (d - b) ** 2);
  const share = Math.min(Math.max(along || 0, 0), 1);
  return Math.hypot(x - a - share * (c - a), y - b - share * (d - b));
};

const toPart = (x, y, lines) => Math.min(...lines.map(line => line.length < 2
  ? Math.hypot(x - line[0][0], y - line[0][1])
  : line.reduce((least, end, at) => at ? Math.min(least, toSegment(x, y, line[at - 1], end)) : least, Infinity)));

const undone = {
  log: value => 10 ** value,
  symlog: (value, within, stretch) => Math.abs(value) <= within * stretch
    ? value / stretch : Math.sign(value) * within * 10 ** (Math.abs(value) / within - stretch),
};

// The value at a position: four digits, or as many as the drawing resolves (a hundredth of a point).
const valueAt = (scale, at) => {
  const [from, to, first, last, kind, ...parameters] = scale.split(" ").map(word => isNaN(word) ? word : Number(word));
  const value = place => {
    const linear = first + (place - from) / (to - from) * (last - first);
    return kind ? undone[kind](linear, ...parameters) : linear;
  };
  const known = -Math.log10(Math.abs(value(at + .01) - value(at))), wanted = 4 - Math.log10(Math.abs(value(at)));
  const digits = Math.floor(Math.min(Math.max(Math.min(known, wanted), 0), 6));
  const rounded = Number(value(at).toFixed(digits)) || 0;
  return (Number.isInteger(rounded) ? String(rounded) : rounded.toFixed(digits)).replace("-", "\u2212");
};

const colour = ({stroke, fill}) => stroke && stroke !== "none" ? stroke : fill;

const described = element => {
  const panel = element.closest("[data-panel]").dataset;
  const [first, words] = element.getAttribute("aria-label").split("\n");
  const name = panel.panel && first.endsWith(`, ${panel.panel}`) ? first.slice(0, -panel.panel.length - 2) : first;
  const mark = element.tagName === "use", group = element.tagName === "g";
  const paths = group ? [...element.querySelectorAll(":scope > path")] : mark ? [] : [element];
  const place = ["x", "y"].map(axis => Number(element.getAttribute(axis)));
  let shape = null;
  const shaped = () => {
    const lines = mark ? [[place]] : paths.flatMap(strokes);
    // At the corners of a step, which have the same x, the last one is on the curve.
    return {lines, points: lines.flatMap(line => line.filter(([x], at) => line[at + 1]?.[0] !== x))};
  };
  // Points and intervals have a larger target than the line through them.
  const reach = mark || !group && !element.parentNode.querySelector("use") ? 4 : 0;
  // Long paths are parsed when the pointer first enters their panel.
  return {element, name, words, shape: () => shape ??= shaped(), reach, panel,
    colour: colour((paths[0] || element).style), area: paths.some(path => path.style.fill !== "none"),
    curve: element.classList.contains("curve") && "xScale" in panel && "yScale" in panel};
};

// Panels clip their parts.
const inside = ({panel}, x, y) => {
  if (!("xScale" in panel && "yScale" in panel)) return true;
  const [left, right] = panel.xScale.split(" ").map(Number), [low, high] = panel.yScale.split(" ").map(Number);
  return x > left - 3 && x < right + 3 && y > high - 3 && y < low + 3;
};

// The parts within a distance, nearest first, without those clearly farther than the nearest.
const passing = (parts, x, y, within) => {
  const near = parts.filter(part => !part.area && inside(part, x, y)).map(part => {
    const distance = toPart(x, y, part.shape().lines);
    return {part, distance, beyond: Math.max(distance - part.reach, 0)};
  }).filter(({beyond}) => beyond <= within).sort((a, b) => a.beyond - b.beyond || a.distance - b.distance);
  return near.filter(({beyond}) => beyond <= near[0].beyond + within / 6).map(({part}) => part);
};

const under = (parts, {clientX, clientY}) => {
  const elements = document.elementsFromPoint(clientX, clientY);
  return parts.filter(part => elements.some(element => part.element.contains(element))).slice(-1);
};

const nearest = (part, x, y) => part.shape().points.reduce((one, other) =>
  Math.hypot(other[0] - x, other[1] - y) < Math.hypot(one[0] - x, one[1] - y) ? other : one);

const wordsAt = (part, x, y) => {
  if (!part.curve) return part.words || "";
  const [atX, atY] = nearest(part, x, y), {panel} = part;
  return `${panel.x} ${valueAt(panel.xScale, atX)}, ${panel.y} ${valueAt(panel.yScale, atY)}`;
};

const row = (part, words) => {
  const element = document.createElement("p"), name = document.createElement("b");
  name.textContent = part.name;
  name.style.borderColor = part.colour;
  element.append(name, words);
  return element;
};

const rows = (parts, x, y) => {
  const byName = new Map();
  for (const [at, part] of parts.entries()) {
    if (at && !part.words && !part.curve) continue;
    const words = wordsAt(part, x, y), known = byName.get(part.name);
    // Prefer a point to the line through it.
    if (!known) byName.set(part.name, [part, new Set([words])]);
    else if (words) known[1].add(words);
  }
  return [...byName.values()].flatMap(([part, all]) => [...all].filter((words, _, {length}) => words || length < 2)
    .map(words => row(part, words))).slice(0, 6);
};

const show = (drawing, parts, event) => {
  const matrix = drawing.getScreenCTM().inverse();
  const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  const near = passing(parts, x, y, 9 * matrix.a), found = near.length ? near : under(parts, event);
  hide();
  if (!found.length) return;
  if (found[0].curve) {
    const [atX, atY] = nearest(found[0], x, y);
    ring.setAttribute("cx", atX); ring.setAttribute("cy", atY);
    drawing.append(ring);
  }
  const panel = document.createElement("small");
  panel.textContent = found[0].panel.panel;
  tip.replaceChildren(panel, ...rows(found.filter(part => part.panel === found[0].panel), x, y));
  tip.hidden = false;
  const left = event.clientX + 14, top = event.clientY + 16, {width, height} = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(Math.min(left, document.documentElement.clientWidth - width - 6), 6)}px`;
  tip.style.top = `${top + height > innerHeight ? Math.max(event.clientY - height - 10, 0) : top}px`;
};

for (const drawing of document.querySelectorAll("svg.figure")) {
  const titles = [...drawing.querySelectorAll("title")];
  if (titles.length < 2) continue;
  // Titles become labels, which keeps the browser from showing its own tooltip as well.
  for (const title of titles) {
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  drawing.removeAttribute("aria-labelledby");
  let parts = null;
  const follow = event => show(drawing, parts ??= [...drawing.querySelectorAll("[aria-label]")].map(described), event);
  drawing.addEventListener("pointermove", follow);
  drawing.addEventListener("pointerdown", follow);
  // A touch ends at once: its tooltip stays until the next tap or scroll.
  drawing.addEventListener("pointerleave", event => event.pointerType === "touch" || hide());
}
addEventListener("pointerdown", event => event.target.closest("svg.figure") || hide());
addEventListener("scroll", hide, {capture: true, passive: true});
addEventListener("keydown", event => event.key === "Escape" && hide());
}
"""

TOOLTIP_STYLE = """
.tip { position: fixed; z-index: 3; pointer-events: none; max-width: min(26rem, 92vw); padding: .35rem .65rem;
  border: 1px solid var(MUTED); border-radius: .35rem; background: var(--page); color: var(INK); font-size: .84rem;
  line-height: 1.4; font-variant-numeric: tabular-nums; box-shadow: 0 .15rem .6rem rgb(0 0 0 / .25); }
.tip[hidden] { display: none; } .tip small { color: var(MUTED); } .tip p { margin: .1rem 0; }
.tip b { margin-right: .5em; padding-left: .4em; border-left: .3em solid; }
svg.figure .ring { fill: none; stroke: var(--accent); stroke-width: 1.2; pointer-events: none; }
@media print { .tip, svg.figure .ring { display: none; } }
"""
