// Tooltips of drawings: the title of the part under the pointer and, on a curve, the nearest values.
// Without this script, browsers show the drawings' own titles.
{
const tip = document.createElement("div"), ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
tip.className = "tip"; tip.hidden = true; tip.setAttribute("aria-hidden", "true");
ring.classList.add("ring"); ring.setAttribute("r", 3);
document.body.append(tip);
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
    const [a, b] = rest.trim().split(/[\s,]+/).map(Number);
    if (move === "M") lines.push([]);
    if (move === "z") [x, y] = lines.at(-1)[0];
    else [x, y] = {M: [a, b], L: [a, b], l: [x + a, y + b], h: [x + a, y], v: [x, y + a]}[move];
    lines.at(-1).push([x, y]);
  }
  return lines;
};

const toSegment = (x, y, [a, b], [c, d]) => {
  const along = ((x - a) * (c - a) + (y - b) * (d - b)) / ((c - a) ** 2 + (d - b) ** 2);
  const share = Math.min(Math.max(along || 0, 0), 1);
  return Math.hypot(x - a - share * (c - a), y - b - share * (d - b));
};
const toLine = (x, y, line) =>
  line.reduce((least, end, at) => Math.min(least, toSegment(x, y, line[at - 1] ?? end, end)), Infinity);

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

const described = element => {
  const panel = element.closest("[data-panel]").dataset;
  const [first, words = ""] = element.getAttribute("aria-label").split("\n");
  const name = panel.panel && first.endsWith(`, ${panel.panel}`) ? first.slice(0, -panel.panel.length - 2) : first;
  const mark = element.tagName === "use", group = element.tagName === "g";
  const paths = group ? [...element.querySelectorAll(":scope > path")] : mark ? [] : [element];
  const lines = mark ? [[["x", "y"].map(axis => Number(element.getAttribute(axis)))]] : paths.flatMap(strokes);
  // At the corners of a step, which have the same x, the last one is on the curve.
  const points = lines.flatMap(line => line.filter(([x], at) => line[at + 1]?.[0] !== x));
  // Points and intervals have a larger target than the line through them.
  const reach = mark || !group && !element.parentNode.querySelector("use") ? 4 : 0;
  const {stroke, fill} = (paths[0] || element).style, colour = stroke && stroke !== "none" ? stroke : fill;
  const scales = "xScale" in panel && "yScale" in panel ? [panel.xScale, panel.yScale] : null;
  return {element, panel, name, words, lines, points, reach, colour, scales,
    area: paths.some(path => path.style.fill !== "none"), curve: scales && element.classList.contains("curve")};
};

// Panels clip their parts.
const inside = ({scales}, x, y) => {
  if (!scales) return true;
  const [[left, right], [low, high]] = scales.map(scale => scale.split(" ").map(Number));
  return x > left - 3 && x < right + 3 && y > high - 3 && y < low + 3;
};

// The parts within a distance, nearest first, without those clearly farther than the nearest.
const passing = (parts, x, y, within) => {
  const near = parts.filter(part => !part.area && inside(part, x, y)).map(part => {
    const distance = Math.min(...part.lines.map(line => toLine(x, y, line)));
    return {part, distance, beyond: Math.max(distance - part.reach, 0)};
  }).filter(({beyond}) => beyond <= within).sort((a, b) => a.beyond - b.beyond || a.distance - b.distance);
  return near.filter(({beyond}) => beyond <= near[0].beyond + within / 6).map(({part}) => part);
};

const under = (parts, {clientX, clientY}) => {
  const elements = document.elementsFromPoint(clientX, clientY);
  return parts.filter(part => elements.some(element => part.element.contains(element))).slice(-1);
};

const nearest = ({points}, x, y) => points.reduce((one, other) =>
  Math.hypot(other[0] - x, other[1] - y) < Math.hypot(one[0] - x, one[1] - y) ? other : one);

const wordsAt = (part, x, y) => {
  if (!part.curve) return part.words;
  const values = nearest(part, x, y).map((at, axis) => valueAt(part.scales[axis], at));
  return `${part.panel.x} ${values[0]}, ${part.panel.y} ${values[1]}`;
};

const row = ({name, colour}, words) => {
  const element = document.createElement("p"), bold = document.createElement("b");
  bold.textContent = name;
  bold.style.borderColor = colour;
  element.append(bold, words);
  return element;
};

// A row for the nearest part, and for all that have words; those of one name follow each other.
const rows = (parts, x, y) => {
  const byName = new Map();
  for (const part of parts) {
    const words = wordsAt(part, x, y), known = byName.get(part.name) ?? {part, all: new Set()};
    if (words || !byName.size) byName.set(part.name, known);
    if (words) known.all.add(words);
  }
  return [...byName.values()].flatMap(({part, all}) => (all.size ? [...all] : [""]).map(words => row(part, words)))
    .slice(0, 6);
};

const show = (drawing, parts, event) => {
  const matrix = drawing.getScreenCTM().inverse();
  const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  const near = passing(parts, x, y, 9 * matrix.a), [first, ...others] = near.length ? near : under(parts, event);
  hide();
  if (!first) return;
  if (first.curve) {
    const [atX, atY] = nearest(first, x, y);
    ring.setAttribute("cx", atX); ring.setAttribute("cy", atY);
    drawing.append(ring);
  }
  const panel = document.createElement("small");
  panel.textContent = first.panel.panel;
  tip.replaceChildren(panel, ...rows([first, ...others.filter(part => part.panel === first.panel)], x, y));
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
  // Paths are parsed when the pointer first enters their drawing.
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
