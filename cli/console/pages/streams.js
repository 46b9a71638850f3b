// Streams: search and pages, both answered by the server, with rates since the last reading.

import { get } from "./api.js";
import { appendTimes, count, h, plural, rate, render, show, state, streamLink, table, UNKNOWN } from "./dom.js";
import { poll } from "./poll.js";

const ROWS = 25;
const INTERVAL_MS = 2000;
const TYPING_MS = 200;

export function streamsPage(main, parameters, frame) {
  let offset = 0;
  let timer = null;
  const field = h("input", { id: "search", type: "search", value: parameters.get("search") ?? "", autocomplete: "off", spellcheck: "false", placeholder: "namespace/stream, or a part of it" });
  const result = h("div", { id: "result" });
  const total = h("p", { role: "status", id: "total" });
  show(main, h("h1", {}, "Streams"), h("form", { role: "search", class: "bar" }, h("label", { for: "search" }, "Search"), field, total), result);
  show(result, state("Loading", "Reading the streams."));
  main.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", () => {
    offset = 0;
    clearTimeout(timer);
    timer = setTimeout(() => polling.again(), TYPING_MS);
  });

  function draw(found) {
    const text = found.total === null ? "" : `${plural(found.total, "stream")} in the cluster`;
    if (total.textContent !== text) total.textContent = text;
    if (!found.streams.length) {
      render(result, offset || field.value.trim()
        ? state("No match", "No stream that you may read has this text in its name.")
        : state("No stream yet", "Create one:", h("pre", {}, "rhumbline stream create NAME")));
      return;
    }
    const go = (to) => () => {
      offset = to;
      polling.again();
    };
    render(result,
      table("Streams by name", [
        ["Stream", (one) => streamLink(`${one.namespace}/${one.stream}`)],
        ["Records/s", (one) => rate(one.records_per_second), true],
        ["Append p50 / p99", appendTimes, true],
        ["Lag (records)", (one) => count(one.lag_records), true],
        ["Served by", (one) => one.owner ?? "no proxy"],
        ["Records", (one) => count(one.records), true], ["End", (one) => one.end ?? UNKNOWN],
      ], found.streams, (one) => `${one.namespace}/${one.stream}`),
      h("nav", { class: "bar", "aria-label": "Pages of the list" },
        h("button", { type: "button", "data-key": "previous", disabled: offset === 0, onclick: go(Math.max(0, offset - ROWS)) }, "Previous"),
        h("span", {}, `${count(offset + 1)} to ${count(offset + found.streams.length)}`),
        h("button", { type: "button", "data-key": "next", disabled: !found.has_more, onclick: go(offset + ROWS) }, "Next")));
  }
  const polling = poll({
    intervalMs: INTERVAL_MS, draw, frame, blank: result, what: "The streams",
    read: (signal) => get("/api/streams", { search: field.value.trim(), offset, limit: ROWS }, signal),
  });
  return {
    close() {
      clearTimeout(timer);
      polling.close();
    },
  };
}
