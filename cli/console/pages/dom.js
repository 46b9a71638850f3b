// Elements, numbers and small parts that all pages share. Text is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
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
  value === undefined || value === null ? UNKNOWN : `${value < 1 ? value.toFixed(2) : decimal.format(value)} ms`;

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Text with commands between backquotes, such as that of alerts. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/** A state in words and in color; the words alone are enough. */
export const badge = (word, kind) => h("span", { class: `badge ${kind}` }, word);

const KINDS = {
  writable: "good", open: "good", running: "good", accepting: "good", up: "good", whole: "good",
  "read-only": "warn", closed: "warn", draining: "warn", drained: "warn", disallowed: "warn",
  limbo: "warn", reduced: "warn", at_risk: "warn", warning: "warn", "no writable bookie": "warn",
  down: "bad", offline: "bad", lost: "bad", unreachable: "bad", fault: "bad", doubtful: "bad",
  unavailable: "bad", "no bookies": "bad", decommissioned: "bad",
};
export const kindOf = (state) => KINDS[state] ?? "plain";
export const stateBadge = (state) => badge(state.replaceAll("_", " "), kindOf(state));

/** A table with a caption; `columns` are [title, cell of a row, is a number]. */
export function table(caption, columns, rows) {
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map(([title, , isNumber]) =>
        h("th", { scope: "col", class: isNumber ? "number" : null }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, cell, isNumber], index) =>
        h(index ? "td" : "th", { class: isNumber ? "number" : null, scope: index ? null : "row" },
          cell(row))))))));
}

export const fact = (name, value, note) =>
  h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value), note ? h("dd", { class: "note" }, note) : null);

/** What a page shows instead of data: loading, empty, forbidden or failed. */
export const state = (title, text, ...more) =>
  h("section", { class: "blank" }, h("h2", {}, title), h("p", {}, text), ...more);

export const streamLink = (name) => {
  const at = name.indexOf("/");
  const query = new URLSearchParams({ namespace: name.slice(0, at), stream: name.slice(at + 1) });
  return h("a", { href: `#/stream?${query}`, "data-key": `link ${name}` }, name);
};
