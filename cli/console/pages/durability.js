// Durability: take regions, racks and bookies away, and see what would block or be lost.

import { get } from "./api.js";
import { bookieName, bytes, count, fact, h, kindOf, plural, render, show, state, stateBadge, streamLink, table, tally, UNKNOWN } from "./dom.js";
import { poll } from "./poll.js";

const INTERVAL_MS = 5000;

export function durabilityPage(main, parameters, frame) {
  const lost = new Set(parameters.getAll("lose"));
  const body = h("div", {});
  show(main, h("h1", {}, "Durability"), body);
  show(body, state("Loading", "Reading all ledgers."));

  const toggle = (name) => {
    if (!lost.delete(name)) lost.add(name);
    const query = new URLSearchParams([...lost].map((one) => ["lose", one]));
    history.replaceState(null, "", `#/durability${lost.size ? `?${query}` : ""}`);
    polling.again();
  };
  const polling = poll({
    intervalMs: INTERVAL_MS, frame, blank: body, what: "The state of the copies",
    read: (signal) => get("/api/durability", [...lost].map((one) => ["lose", one]), signal),
    draw: (found) => render(body, placesOf(found, lost, toggle), verdictOf(found), countsOf(found), streamsOf(found), alternativesOf(found)),
    refused(error) {
      if (error.status === 400) lost.clear();
      return false;
    },
  });
  return { close: polling.close };
}

function placesOf(found, lost, toggle) {
  const regions = {};
  for (const one of found.places) ((regions[one.region] ??= {})[one.rack ?? ""] ??= []).push(one);
  const pick = (name, words, kind) => h("button", { type: "button", class: `pick ${kind ?? ""}`, "data-key": `lose ${name}`, "data-lose": name, "aria-pressed": String(lost.has(name)), onclick: () => toggle(name) }, words);
  return h("section", { "aria-labelledby": "places" },
    h("h2", { id: "places" }, "What if this were lost for good?"),
    h("p", { class: "note" }, "Choose regions, racks or bookies; choose again to take them back. This only computes: nothing in the cluster is changed."),
    h("div", { class: "world" }, Object.keys(regions).sort().map((region) => h("div", { class: "land" },
      pick(region, `Region ${region}`),
      Object.entries(regions[region]).sort(([a], [b]) => (a === "") - (b === "") || a.localeCompare(b)).map(([rack, bookies]) => h("div", { class: "rack" },
        rack ? pick(`rack:${region}/${rack}`, `Rack ${rack}`, "of-rack") : h("p", { class: "note" }, "Rack unknown"),
        h("div", { class: "bookies" }, bookies.map((one) => pick(`bookie:${one.bookie}`, [bookieName(one.bookie), one.state === "up" ? "" : stateBadge(one.state)], `of-bookie ${kindOf(one.state)}`)))))))));
}

function verdictOf(found) {
  const { after, now } = found;
  const kindOfCount = (key, kind) => (after[key] ? kind : "");
  const lacking = [after.ledgers.open, after.ledgers.closed].reduce((sum, one) => sum + (one.reduced ?? 0) + (one.at_risk ?? 0), 0);
  const ledgers = [after.ledgers.open, after.ledgers.closed].flatMap((one) => Object.values(one)).reduce((sum, one) => sum + one, 0);
  const [title, kind] = after.ledgers_that_may_lose ? ["Data may be lost", "bad"]
    : after.writes_blocked ? ["Writes would block", "warn"]
    : lacking ? [`Nothing is lost, and writes continue, but ${plural(lacking, "ledger")} ${lacking === 1 ? "lacks" : "lack"} copies`, "warn"]
    : found.lost.length ? ["Nothing is lost, and writes continue", "good"] : [ledgers ? "All ledgers have all copies, and writes continue" : "No ledger has been written yet", "plain"];
  const change = (key) => (found.lost.length ? `now ${count(now[key])}` : null);
  return h("section", { class: `verdict ${kind}`, id: "verdict", "data-verdict": kind, "aria-live": "polite" },
    h("h2", {}, found.lost.length ? `${title} after losing ${found.lost.join(", ")}` : title),
    h("dl", { class: "facts" },
      fact("Ledgers that may lose entries", count(after.ledgers_that_may_lose), change("ledgers_that_may_lose"), kindOfCount("ledgers_that_may_lose", "bad")),
      fact("Entries in doubt or lost", count(after.entries_that_may_be_lost), after.bytes_that_may_be_lost ? bytes(after.bytes_that_may_be_lost) : change("entries_that_may_be_lost"), kindOfCount("entries_that_may_be_lost", "bad")),
      fact("Streams that may lose entries", count(after.streams_that_may_lose), change("streams_that_may_lose"), kindOfCount("streams_that_may_lose", "bad")),
      fact("Streams that cannot be written", count(after.streams_blocked), change("streams_blocked"), kindOfCount("streams_blocked", "warn")),
      fact("Open ledgers blocked", count(after.writes_blocked), change("writes_blocked"), kindOfCount("writes_blocked", "warn"))));
}

function countsOf(found) {
  const verdicts = Object.keys(found.after.ledgers.open);
  return table("Ledgers by the state of their copies", [
    ["State", (one) => stateBadge(one)],
    ["Open now", (one) => tally(found.now.ledgers.open[one]), true],
    ["Open after", (one) => tally(found.after.ledgers.open[one]), true],
    ["Closed now", (one) => tally(found.now.ledgers.closed[one]), true],
    ["Closed after", (one) => tally(found.after.ledgers.closed[one]), true],
    ["Entries after", (one) => tally(found.after.entries[one]), true],
  ], verdicts);
}

function streamsOf(found) {
  if (!found.streams.length) return null;
  return table(`Affected streams (${count(found.streams.length)} shown, the worst first)`, [
    ["Stream", (one) => streamLink(one.stream)], ["After", (one) => stateBadge(one.verdict)],
    ["Now", (one) => stateBadge(one.verdict_now)], ["Writes", (one) => (one.writes_blocked ? stateBadge("blocked") : "continue")],
  ], found.streams);
}

function alternativesOf(found) {
  if (!found.alternatives.length) return null;
  const word = (value) => (value === null ? UNKNOWN : value ? "yes" : "no");
  const hasEffect = found.alternatives.some((one) => one.writes_resume !== null);
  const columns = [
    ["E/WQ/AQ/R", (one) => [one.quorum, one.is_current ? " (in use)" : ""]],
    ["Regions it can lose", (one) => count(one.regions_survived), true],
    ["Bytes between regions per byte", (one) => one.wan_bytes_per_byte, true],
  ];
  if (hasEffect) columns.push(["All data readable", (one) => word(one.reads)], ["Writes resume", (one) => word(one.writes_resume)], ["Reason", (one) => h("span", { class: "wide" }, one.obstacle ?? "")]);
  return [table("Alternatives: quorums on the bookies that are live now", columns, found.alternatives),
    h("p", { class: "note" }, "Computed as ", h("code", {}, "rhumbline plan"), " does. The quorum of new segments is set with ", h("code", {}, "rhumbline namespace set-policy"), ".")];
}
