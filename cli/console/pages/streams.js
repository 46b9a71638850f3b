// Streams: search and pages, both answered by the server, with rates since the last reading.

import { get, Refused } from "./api.js";
import { count, h, plural, rate, show, state, streamLink, table, UNKNOWN } from "./dom.js";

const ROWS = 25;
const INTERVAL_MS = 2000;
const TYPING_MS = 200;

export function streamsPage(main, parameters, frame) {
  let offset = 0;
  let timer = null;
  let asking = null;
  const field = h("input", { id: "search", type: "search", value: parameters.get("search") ?? "", autocomplete: "off", spellcheck: "false", placeholder: "namespace/stream, or a part of it" });
  const result = h("div", { id: "result" });
  const total = h("p", { role: "status", id: "total" });
  show(main, h("h1", {}, "Streams"), h("form", { role: "search", class: "bar" }, h("label", { for: "search" }, "Search"), field, total), result);
  show(result, state("Loading", "Reading the streams."));
  main.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", () => {
    offset = 0;
    clearTimeout(timer);
    timer = setTimeout(load, TYPING_MS);
  });

  async function load() {
    clearTimeout(timer);
    asking?.abort();
    asking = new AbortController();
    const mine = asking;
    try {
      const found = await get("/api/streams", { search: field.value.trim(), offset, limit: ROWS }, mine.signal);
      draw(found);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return void frame.signIn(error);
      if (error instanceof Refused && error.status === 403) return void frame.forbid(error);
      show(result, state("Not available", `The streams cannot be read now: ${error.message}. The console retries by itself.`));
    }
    timer = setTimeout(load, INTERVAL_MS);
  }

  function draw(found) {
    const text = found.total === null ? "" : `${plural(found.total, "stream")} in the cluster`;
    if (total.textContent !== text) total.textContent = text;
    if (!found.streams.length) {
      show(result, offset || field.value.trim()
        ? state("No match", "No stream that you may read has this text in its name.")
        : state("No stream yet", "Create one:", h("pre", {}, "rhumbline stream create NAME")));
      return;
    }
    const go = (to) => () => {
      offset = to;
      load();
    };
    show(result,
      table("Streams by name", [
        ["Stream", (one) => streamLink(`${one.namespace}/${one.stream}`)],
        ["Records/s", (one) => rate(one.records_per_second), true],
        ["Records", (one) => count(one.records), true],
        ["Lag", (one) => count(one.lag_records), true],
        ["End", (one) => one.end ?? UNKNOWN], ["Owner", (one) => one.owner ?? UNKNOWN],
      ], found.streams),
      h("nav", { class: "bar", "aria-label": "Pages of the list" },
        h("button", { type: "button", "data-key": "previous", disabled: offset === 0, onclick: go(Math.max(0, offset - ROWS)) }, "Previous"),
        h("span", {}, `${count(offset + 1)} to ${count(offset + found.streams.length)}`),
        h("button", { type: "button", "data-key": "next", disabled: !found.has_more, onclick: go(offset + ROWS) }, "Next")));
  }
  load();
  return {
    close() {
      clearTimeout(timer);
      asking?.abort();
    },
  };
}
