// The trace of one record: where it is from its append to its delivery.

import { get } from "./api.js";
import { badge, bookieName, bytes, h, ms, show } from "./dom.js";

export function recordTrace(name) {
  const field = h("input", { id: "position", autocomplete: "off", spellcheck: "false", placeholder: "segment:entry:slot" });
  const form = h("form", { class: "bar" }, h("label", { for: "position" }, "Position"), field, h("button", { type: "submit" }, "Trace"));
  const result = h("div", { id: "trace", "aria-live": "polite" });
  const node = h("section", { "aria-labelledby": "trace-title" }, h("h2", { id: "trace-title" }, "Trace of a record"),
    h("p", { class: "note" }, "Choose a record in the live tail, or enter the position of a record."), form, result);
  async function trace(position, deliveredMs) {
    field.value = position.split("@")[0];
    show(result, h("p", {}, "Reading the copies of the record."));
    try {
      show(result, stepsOf(await get("/api/record", { ...name, position }), deliveredMs));
    } catch (error) {
      show(result, h("p", {}, `The record cannot be traced: ${error.message}.`));
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) trace(field.value.trim());
  });
  return { node, trace };
}

function stepsOf(found, deliveredMs) {
  const key = found.key ?? found.key_hex;
  const span = found.traceparent?.split("-")[1];
  const stored = found.stored;
  const holding = stored?.copies.filter((one) => one.state === "holds it") ?? [];
  const step = (title, word, kind, ...more) => h("li", { class: `step ${kind}` }, h("h3", {}, title, " ", badge(word, kind)), ...more);
  const delay = deliveredMs === undefined ? null : deliveredMs - found.created_ms;
  return h("ol", { class: "steps" },
    step("Appended", new Date(found.created_ms).toISOString().slice(11, 23), "plain",
      h("p", {}, `${bytes(found.size_bytes)}${key ? `, key ${key}` : ""}; the time is that of the clock of its producer.`), span ? h("p", { class: "note" }, `Trace ${span}`) : null),
    stored ? step("Stored", `${holding.length} of ${stored.copies.length} copies`, holding.length === stored.copies.length ? "good" : "warn",
      h("p", {}, `Entry ${stored.entry} of ledger ${stored.ledger}, segment ${found.segment}, quorum ${stored.quorum}.`),
      h("ul", { class: "places" }, stored.copies.map((one) => h("li", {}, h("strong", {}, one.region), h("span", { class: "chip" }, bookieName(one.bookie)), badge(one.state, one.state === "holds it" ? "good" : one.state === "lacks it" ? "bad" : "warn"), h("span", { class: "note" }, ms(one.took_ms))))))
      : step("Stored", "archive only", "plain", h("p", {}, `Segment ${found.segment} no longer has a ledger.`)),
    step("Acknowledged", stored && !stored.is_acknowledged ? "too few copies now" : "yes", stored && !stored.is_acknowledged ? "warn" : "good",
      h("p", {}, "It is readable: an acknowledgement quorum has stored it."),
      h("p", { class: "note" }, stored && !stored.is_acknowledged ? "The bookies that hold it now would not be enough for an acknowledgement." : "")),
    step("Delivered", delay === null ? `read in ${ms(found.read_ms)}` : `${ms(Math.max(0, delay))} after the append`, "good",
      h("p", {}, delay === null ? "The console has just read it." : "In the live tail of this page; the clocks of the producer and of this browser may differ."),
      found.subscriptions.length ? h("ul", { class: "places" }, found.subscriptions.map((one) => h("li", {}, h("span", { class: "chip" }, one.subscription), badge(one.has_passed ? "passed" : "not yet", one.has_passed ? "good" : "warn")))) : h("p", { class: "note" }, "The stream has no subscription.")),
    step("Archived", found.residence === "hot" ? "not yet" : "yes", found.residence === "hot" ? "plain" : "good",
      h("p", {}, found.is_completed ? `Its segment is completed: ${found.residence}.` : "Its segment is still being written.")));
}
