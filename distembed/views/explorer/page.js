// The program of the page: a map drawn by BokehJS, and search, neighbors, colors and keys around it.
"use strict";

const LABELS = 90; // names on the map at once, at most
const FOUND = 12; // names that a search offers, at most
const REACH = 14; // pixels around a click in which a point is looked for
const CHARACTER = 6.6; // pixels: no name is measured

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const names = data.names;
const lowered = names.map((name) => name.toLowerCase());
const x = unpacked(data.x, Float32Array);
const y = unpacked(data.y, Float32Array);
const labeled = unpacked(data.labeled, Uint8Array);
const lists = data.lists.map((list) => ({
  title: list.title,
  k: list.k,
  rows: unpacked(list.rows, Int32Array),
  values: unpacked(list.values, Int16Array),
}));
const colorings = data.colorings.map((one) => ({ ...one, codes: unpacked(one.codes, Uint8Array) }));
let chosen = -1; // the number of the point whose neighbors are shown
let only = -1; // the code of the only category shown in color

// --- small pieces of the page --------------------------------------------------------------------------------

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function say(text) {
  byId("message").textContent = text;
}

// --- the map -------------------------------------------------------------------------------------------------

const { Plotting, ColumnDataSource, Range1d, HoverTool } = Bokeh;

function bounds(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 1];
}

const [left, right] = bounds(x);
const [bottom, top_] = bounds(y);
const whole = {
  x: (left + right) / 2,
  y: (bottom + top_) / 2,
  width: 1.06 * (right - left || 1),
  height: 1.06 * (top_ - bottom || 1),
};
const points = new ColumnDataSource({ data: { x, y, name: names, color: names.map(() => "#000000") } });
const lines = new ColumnDataSource({ data: { x0: [], y0: [], x1: [], y1: [] } });
const near = new ColumnDataSource({ data: { x: [], y: [] } });
const center = new ColumnDataSource({ data: { x: [], y: [] } });
const labels = new ColumnDataSource({ data: { x: [], y: [], text: [] } });

function pointSize() {
  return Math.max(3.5, Math.min(8, 320 / Math.sqrt(names.length)));
}

function drawing() {
  const plot = Plotting.figure({
    sizing_mode: "stretch_both",
    tools: "pan,wheel_zoom,box_zoom",
    active_scroll: "wheel_zoom",
    toolbar_location: null,
    x_range: new Range1d({ start: left, end: right }),
    y_range: new Range1d({ start: bottom, end: top_ }),
    output_backend: "webgl",
    outline_line_color: null,
    min_border: 0,
  });
  for (const axis of [...plot.xaxis, ...plot.yaxis]) axis.visible = false;
  for (const grid of [...plot.xgrid, ...plot.ygrid]) grid.visible = false;
  const at = { x: { field: "x" }, y: { field: "y" } };
  const dots = plot.scatter({
    ...at, source: points, size: pointSize(), line_color: null, fill_color: { field: "color" }, fill_alpha: 0.7,
  });
  plot.segment({
    x0: { field: "x0" }, y0: { field: "y0" }, x1: { field: "x1" }, y1: { field: "y1" },
    source: lines, line_color: "#0b0b0b", line_alpha: 0.35,
  });
  plot.scatter({ ...at, source: near, size: 9, fill_color: null, line_color: "#0b0b0b", line_width: 1.2 });
  plot.scatter({ ...at, source: center, size: 13, fill_color: "#e34948", line_color: "#ffffff", line_width: 1.5 });
  plot.text({
    ...at, text: { field: "text" }, source: labels, text_font_size: "11px", text_color: "#0b0b0b",
    background_fill_color: "#ffffff", background_fill_alpha: 0.6, x_offset: 6, text_baseline: "middle",
  });
  plot.add_tools(new HoverTool({ renderers: [dots], tooltips: [[data.noun, "@name"]], limit: 3 }));
  return plot;
}

const plot = drawing();

// Show a rectangle of the plane, made larger to the shape of the map: both axes have one scale.
function show({ x: middle, y: level, width, height }) {
  if (!plot.inner_width || !plot.inner_height) return; // a frame that is not shown yet; it is told when it has a size
  const shape = plot.inner_width / plot.inner_height;
  const across = Math.max(width, height * shape);
  plot.x_range.setv({ start: middle - across / 2, end: middle + across / 2 });
  plot.y_range.setv({ start: level - across / shape / 2, end: level + across / shape / 2 });
}

function view() {
  const { x_range: over, y_range: up } = plot;
  return {
    x: (over.start + over.end) / 2,
    y: (up.start + up.end) / 2,
    width: over.end - over.start,
    height: up.end - up.start,
  };
}

function zoom(factor) {
  const now = view();
  show({ ...now, width: now.width * factor, height: now.height * factor });
}

function move(over, up) {
  const now = view();
  show({ ...now, x: now.x + over * now.width, y: now.y + up * now.height });
}

// Names that do not cover each other: the chosen point and its neighbors first, then the most important in sight.
function placeLabels() {
  const scale = plot.inner_width / (plot.x_range.end - plot.x_range.start);
  const tall = plot.inner_height, taken = [], shown = { x: [], y: [], text: [] };
  const tried = function* () {
    if (chosen >= 0) yield* [chosen, ...neighborsOf(chosen, lists[0]).map((one) => one.row)];
    for (let row = 0; row < names.length; row++) if (labeled[row] && row !== chosen) yield row;
  };
  for (const row of tried()) {
    if (taken.length >= LABELS) break;
    const text = names[row].length > 28 ? `${names[row].slice(0, 27)}…` : names[row];
    const at = (x[row] - plot.x_range.start) * scale, height = (y[row] - plot.y_range.start) * scale;
    const box = [at + 4, at + 8 + text.length * CHARACTER, height - 8, height + 8];
    if (box[0] < 0 || box[1] > plot.inner_width || box[2] < 0 || box[3] > tall || !text) continue;
    if (taken.some((one) => box[0] < one[1] && one[0] < box[1] && box[2] < one[3] && one[2] < box[3])) continue;
    taken.push(box);
    shown.x.push(x[row]);
    shown.y.push(y[row]);
    shown.text.push(text);
  }
  labels.data = shown;
  document.body.dataset.labels = shown.text.length;
}

let waiting = 0;
function placeLabelsSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(placeLabels, 90);
}

function pointAt(over, up) {
  const reach = (REACH * (plot.x_range.end - plot.x_range.start)) / plot.inner_width;
  let best = -1, least = reach * reach;
  for (let row = 0; row < names.length; row++) {
    const distance = (x[row] - over) ** 2 + (y[row] - up) ** 2;
    if (distance < least) [best, least] = [row, distance];
  }
  return best;
}

// --- colors --------------------------------------------------------------------------------------------------

function paint() {
  const { codes, palette, quantity } = colorings[byId("coloring").value];
  const shown = quantity ? palette : palette.map((color, code) => (only < 0 || only === code ? color : "#e4e3de"));
  points.data = { ...points.data, color: Array.from(codes, (code) => shown[code]) };
}

function drawKey() {
  const { palette, key, quantity } = colorings[byId("coloring").value];
  byId("key").replaceChildren(...(quantity ? scaleOf(palette, key) : key.map(categoryOf(palette))));
}

function scaleOf(palette, key) {
  const bar = element("span", "", { class: "scale" });
  bar.style.background = `linear-gradient(to right, ${palette.join(",")})`;
  return [element("span", key[0]), bar, element("span", `${key[2]} (middle ${key[1]})`)];
}

const categoryOf = (palette) => (text, code) => {
  const button = element("button", text, { type: "button", "aria-pressed": String(only === code) });
  const dot = element("i");
  dot.style.background = palette[code];
  button.prepend(dot);
  button.addEventListener("click", () => {
    only = only === code ? -1 : code;
    paint();
    drawKey();
  });
  return button;
};

function recolor() {
  only = -1;
  paint();
  drawKey();
}

// --- one point and its neighbors -----------------------------------------------------------------------------

function neighborsOf(row, { k, rows, values }) {
  const found = [];
  for (let place = row * k; place < (row + 1) * k; place++)
    if (rows[place] >= 0) found.push({ row: rows[place], value: values[place] / data.steps });
  return found;
}

function factsOf(row) {
  const facts = Object.entries(data.facts).map(([name, texts]) => [name, texts[row]]);
  for (const one of colorings) if (!one.quantity) facts.push([one.name, one.key[one.codes[row]]]);
  return facts.filter(([, text]) => text);
}

function listOf(row, list) {
  const items = element("ol");
  for (const { row: other, value } of neighborsOf(row, list)) {
    const button = element("button", "", { type: "button" });
    button.append(element("bdi", names[other], { translate: "no" }), element("small", value.toFixed(3)));
    button.addEventListener("click", () => choose(other));
    const item = element("li");
    item.append(button);
    items.append(item);
  }
  return items.childElementCount ? [element("h3", list.title), items] : [];
}

function describe(row) {
  const title = element("h2");
  title.append(element("bdi", names[row], { translate: "no" }));
  const facts = element("dl");
  for (const [name, text] of factsOf(row)) {
    const line = element("div");
    line.append(element("dt", name), element("dd", text));
    facts.append(line);
  }
  byId("panel").replaceChildren(title, facts, ...lists.flatMap((list) => listOf(row, list)));
}

function mark(row) {
  const others = row < 0 ? [] : neighborsOf(row, lists[0]).map((one) => one.row);
  const at = (values) => others.map((other) => values[other]);
  near.data = { x: at(x), y: at(y) };
  center.data = row < 0 ? { x: [], y: [] } : { x: [x[row]], y: [y[row]] };
  lines.data = { x0: others.map(() => x[row]), y0: others.map(() => y[row]), x1: at(x), y1: at(y) };
  placeLabelsSoon();
}

function inSight(row) {
  const now = view();
  return Math.abs(x[row] - now.x) < 0.48 * now.width && Math.abs(y[row] - now.y) < 0.48 * now.height;
}

function choose(row) {
  chosen = row;
  say("");
  describe(row);
  mark(row);
  if (!inSight(row)) show({ ...view(), x: x[row], y: y[row] });
  history.replaceState(null, "", `#${encodeURIComponent(names[row])}`);
}

function letGo() {
  chosen = -1;
  byId("search").value = "";
  say("");
  mark(-1);
  byId("panel").replaceChildren(element("p", "Click a point, or search, to see its neighbors.", { class: "hint" }));
  history.replaceState(null, "", "#");
}

// --- search --------------------------------------------------------------------------------------------------

function matches(text) {
  const wanted = text.toLowerCase(), begins = [], holds = [];
  for (let row = 0; row < names.length && begins.length < FOUND; row++) {
    const place = lowered[row].indexOf(wanted);
    if (place === 0) begins.push(row);
    else if (place > 0 && holds.length < FOUND) holds.push(row);
  }
  return [...begins, ...holds].slice(0, FOUND);
}

function exactRow(text) {
  const row = names.indexOf(text);
  return row >= 0 ? row : lowered.indexOf(text.toLowerCase());
}

let offered = [];
let at = -1;

function offer(rows) {
  offered = rows;
  at = -1;
  const items = rows.map((row, place) => {
    const item = element("li", "", { role: "option", id: `found-${place}`, "aria-selected": "false" });
    item.append(element("bdi", names[row], { translate: "no" }));
    item.addEventListener("mousedown", (event) => event.preventDefault());
    item.addEventListener("click", () => take(row));
    return item;
  });
  byId("found").replaceChildren(...items);
  byId("found").hidden = !rows.length;
  byId("search").setAttribute("aria-expanded", String(rows.length > 0));
}

function step(by) {
  if (!offered.length) return;
  at = (at + by + offered.length) % offered.length;
  [...byId("found").children].forEach((item, place) => {
    item.setAttribute("aria-selected", String(place === at));
    if (place === at) item.scrollIntoView({ block: "nearest" });
  });
  byId("search").setAttribute("aria-activedescendant", `found-${at}`);
}

function take(row) {
  byId("search").value = names[row];
  offer([]);
  choose(row);
}

function search() {
  const text = byId("search").value.trim();
  if (!text) return;
  const exact = exactRow(text);
  if (at >= 0) take(offered[at]);
  else if (exact >= 0) take(exact);
  else unknown(text);
}

function unknown(text) {
  let begun = text;
  while (begun.length > 1 && !matches(begun).length) begun = begun.slice(0, -1);
  const like = matches(begun);
  const others = like.length ? ` Spelled like it: ${like.slice(0, 5).map((row) => names[row]).join(", ")}.` : "";
  say(`There is no ${data.noun} “${text}” among the ${names.length.toLocaleString("en")} shown.${others}`);
  offer(like);
}

// --- what a reader does --------------------------------------------------------------------------------------

const MOVES = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, 0.2], ArrowDown: [0, -0.2] };

function searchKey(event) {
  if (event.key === "ArrowDown") step(1);
  else if (event.key === "ArrowUp") step(-1);
  else if (event.key === "Escape") offer([]);
  else return;
  event.preventDefault();
}

function pageKey(event) {
  if (/^(INPUT|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") byId("search").select();
  else if (event.key === "+" || event.key === "=") zoom(1 / 1.5);
  else if (event.key === "-") zoom(1.5);
  else if (event.key === "0") show(whole);
  else if (event.key === "Escape") letGo();
  else if (MOVES[event.key]) move(...MOVES[event.key]);
  else return;
  event.preventDefault();
}

function listen() {
  byId("search").addEventListener("input", (event) => {
    say("");
    offer(event.target.value.trim() ? matches(event.target.value.trim()) : []);
  });
  byId("search").addEventListener("keydown", searchKey);
  byId("search").addEventListener("blur", () => offer([]));
  byId("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("coloring").addEventListener("change", recolor);
  byId("nearer").addEventListener("click", () => zoom(1 / 1.5));
  byId("farther").addEventListener("click", () => zoom(1.5));
  byId("whole").addEventListener("click", () => show(whole));
  document.addEventListener("keydown", pageKey);
  window.addEventListener("hashchange", chooseByAddress);
}

function tapped({ x: over, y: up }) {
  const row = pointAt(over, up);
  if (row >= 0) choose(row);
}

function chooseByAddress() {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {} // a name that holds % and is not encoded
  const row = exactRow(name);
  if (row >= 0) choose(row);
}

async function start() {
  colorings.forEach((one, place) => byId("coloring").append(element("option", one.name, { value: place })));
  listen();
  recolor();
  await Plotting.show(plot, "#map");
  plot.on_event("tap", tapped);
  for (const range of [plot.x_range, plot.y_range]) range.change.connect(placeLabelsSoon);
  plot.properties.inner_width.change.connect(() => show(view()));
  plot.properties.inner_height.change.connect(() => show(view()));
  show(whole);
  placeLabels();
  chooseByAddress();
  document.body.dataset.ready = "yes";
}

start();
