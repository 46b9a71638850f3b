// Elements, numbers and small parts that all pages share. Text is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

// Listeners are kept at the node, so that `render` can replace them.
function listen(node, kind, listener) {
  node.listeners ??= {};
  if (!node.listeners[kind]) node.addEventListener(kind, (event) => node.listeners[kind]?.(event));
  node.listeners[kind] = listener;
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) listen(node, name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const h = (name, attributes, ...children) =>
  build(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) =>
  build(document.createElementNS(SVG, name), attributes, children);

/** Replace the children of a node, and keep the focus on the element with the same key. */
export function show(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused) node.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/**
 * Make the children of a node look like new ones, and change only what differs: the focus, a
 * selection, tooltips and places of scrolling stay. The new children must not be used elsewhere.
 */
export function render(node, ...children) {
  const wanted = children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false && one !== "")
    .map((one) => (one instanceof Node ? one : document.createTextNode(one)));
  adapt(node, wanted);
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key ?? null : null);

function adapt(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
  let next = parent.firstChild;
  for (const one of wanted) {
    const key = keyOf(one);
    const known = key === null ? next : keyed.get(key) ?? null;
    if (known && known !== one && isAlike(known, one)) {
      if (known === next) next = next.nextSibling;
      else parent.insertBefore(known, next);
      change(known, one);
    } else {
      if (one === next) next = next.nextSibling;
      else parent.insertBefore(one, next);
    }
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

const isAlike = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function change(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && !(name === "open" && node.nodeName === "DETAILS")) node.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const kind of Object.keys({ ...node.listeners, ...wanted.listeners })) listen(node, kind, wanted.listeners?.[kind]);
  adapt(node, [...wanted.childNodes]);
}

export const UNKNOWN = "–";
const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === undefined || value === null ? UNKNOWN : whole.format(value));

export function rate(value) {
  if (value === undefined || value === null) return UNKNOWN;
  return value >= 100 ? whole.format(Math.round(value)) : decimal.format(value);
}

export function bytes(value) {
  if (value === undefined || value === null) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${decimal.format(value)} ${units[unit]}`;
}

export const ms = (value) =>
  value === undefined || value === null ? UNKNOWN : value < 0.1 ? "< 0.1 ms" : `${value < 1 ? value.toFixed(2) : decimal.format(value)} ms`;

/** How long recent appends to a stream took, as its proxy measures it. */
export const appendTimes = (one) =>
  one.append_p99_ms === undefined || one.append_p99_ms === null ? UNKNOWN : `${ms(one.append_p50_ms).replace(" ms", "")} / ${ms(one.append_p99_ms)}`;

export const plural = (number, word, several = `${word}s`) => `${count(number)} ${number === 1 ? word : several}`;

/** Text with commands between backquotes, such as that of alerts. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/** A state in words and in color; the words alone are enough. */
export const badge = (word, kind) => h("span", { class: `badge ${kind}` }, word);

const KINDS = {
  writable: "good", open: "good", running: "good", accepting: "good", up: "good", whole: "good",
  "read-only": "warn", closed: "warn", draining: "warn", drained: "warn", disallowed: "warn",
  limbo: "warn", reduced: "warn", at_risk: "warn", warning: "warn", "no writable bookie": "warn",
  down: "bad", offline: "bad", lost: "bad", unreachable: "bad", fault: "bad", doubtful: "bad",
  unavailable: "bad", "no bookies": "bad", blocked: "bad", decommissioned: "bad",
};
export const kindOf = (state) => (Object.hasOwn(KINDS, state) ? KINDS[state] : "plain");
export const stateBadge = (state) => badge(state.replaceAll("_", " "), kindOf(state));

/** A table with a caption; `columns` are [title, cell of a row, is a number], `keyed` names a row. */
export function table(caption, columns, rows, keyed) {
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map(([title, , isNumber]) =>
        h("th", { scope: "col", class: isNumber ? "number" : null }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": keyed?.(row) ?? null }, columns.map(([, cell, isNumber], index) =>
        h(index ? "td" : "th", { class: isNumber ? "number" : null, scope: index ? null : "row" },
          cell(row))))))));
}

/** A number of the head of a page; `kind` marks one that needs attention. */
export const fact = (name, value, note, kind) =>
  h("div", { class: `fact ${kind ?? ""}` }, h("dt", {}, name), h("dd", {}, value), note ? h("dd", { class: "note" }, note) : null);

/** A count in a table; zeros step back, so that other numbers are found at a glance. */
export const tally = (value) => (value === 0 ? h("span", { class: "zero" }, "0") : count(value));

/** The id of a bookie: its name, and quietly what tells it from others that had the name. */
export function bookieName(id) {
  const at = id.lastIndexOf("@");
  return at < 1 ? id : h("span", { class: "id" }, id.slice(0, at), h("span", { class: "suffix" }, id.slice(at)));
}

/** What a page shows instead of data: loading, empty, forbidden or failed. */
export const state = (title, text, ...more) =>
  h("section", { class: "blank" }, h("h2", {}, title), h("p", {}, text), ...more);

/** Alerts, faults first; those of servers of one kind that say the same are one, with all subjects. */
export function groupedAlerts(alerts) {
  const groups = new Map();
  for (const one of Object.values(alerts)) {
    const at = one.subject.indexOf(" ");
    const kind = at < 0 ? one.subject : one.subject.slice(0, at);
    const key = [kind, one.verdict, one.detail, one.runbook].join("\n");
    const known = groups.get(key);
    if (known) known.names.push(one.subject.slice(at + 1));
    else groups.set(key, { ...one, key, kind, names: [one.subject.slice(at + 1)] });
  }
  const rows = [...groups.values()].sort((a, b) => (a.verdict !== "fault") - (b.verdict !== "fault"));
  return rows.map((one) => (one.names.length === 1 ? one : { ...one, subject: `${plural(one.names.length, one.kind)}: ${listed(one.names)}` }));
}
const NAMES_LISTED = 6;
const listed = (names) => names.length <= NAMES_LISTED ? names.join(", ") : `${names.slice(0, NAMES_LISTED).join(", ")} and ${count(names.length - NAMES_LISTED)} more`;

export const streamLink = (name) => {
  const at = name.indexOf("/");
  const query = new URLSearchParams({ namespace: name.slice(0, at), stream: name.slice(at + 1) });
  return h("a", { href: `#/stream?${query}`, "data-key": `link ${name}` }, name);
};
