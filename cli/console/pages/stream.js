// Stream: its segments to scale, where the copies are, and a live tail.

import { offer } from "./actions.js";
import { follow, get } from "./api.js";
import { appendTimes, bookieName, bytes, count, fact, h, ms, plural, rate, render, show, state, stateBadge, svg, table, UNKNOWN } from "./dom.js";
import { poll } from "./poll.js";
import { recordTrace } from "./trace.js";

const INTERVAL_MS = 2000;
const LINES_MAX = 500;
const WIDTH = 1000;

export function streamPage(main, parameters, frame) {
  const name = { namespace: parameters.get("namespace") ?? "", stream: parameters.get("stream") ?? "" };
  const top = h("div", {});
  const trace = recordTrace(name);
  const tail = liveTail(name, trace.trace);
  let chosen = null;
  let latest = null;
  const title = `${name.namespace}/${name.stream}`;
  document.title = `${title} – Rhumbline`;
  show(main, h("div", { class: "title" }, h("h1", {}, h("a", { href: "#/streams" }, "Streams"), h("span", { class: "slash" }, " / "), title), frame.mayAct() ? actionsOf(name, () => polling.again()) : null), top, tail.node, trace.node);
  show(top, state("Loading", "Reading the stream."));

  const choose = (lssn) => {
    chosen = chosen === lssn ? null : lssn;
    draw();
  };
  function draw() {
    render(top, factsOf(latest), segmentsOf(latest, chosen, choose, frame.snapshot()?.servers ?? {}), subscriptionsOf(latest));
  }
  const polling = poll({
    intervalMs: INTERVAL_MS, frame, blank: top, what: "The stream",
    read: (signal) => get("/api/stream", name, signal),
    draw(found) {
      latest = found;
      draw();
    },
    refused(error) {
      if (error.status !== 404) return false;
      tail.close();
      show(main, h("h1", {}, title), state("No such stream", `The console found ${error.message}.`, h("a", { href: "#/streams" }, "Search for another one")));
      return true;
    },
  });
  return {
    close() {
      polling.close();
      tail.close();
    },
  };
}

const actionsOf = (name, reload) => h("div", { class: "bar" },
  offer("roll", `stream:${name.namespace}/${name.stream}`, "Roll…", reload),
  offer("repair", `stream:${name.namespace}/${name.stream}`, "Repair…", reload));

// An address that is too long for its place continues on a new line at its port.
function addressOf(address) {
  const at = address.lastIndexOf(":");
  return [address.slice(0, at), h("wbr", {}), address.slice(at)];
}

function factsOf(found) {
  const word = found.is_ended ? "ended by the application" : found.is_sealed ? "sealed by an operator" : "";
  return h("dl", { class: "facts" },
    fact("Records", count(found.records), word),
    fact("Records/s", rate(found.records_per_second)),
    fact("Append p50 / p99", appendTimes(found), found.owner ? "at its proxy" : null),
    fact("Completed", bytes(found.size_bytes), plural(found.segments.length + found.older.segments, "segment")),
    fact("Quorum", found.quorum, "of new segments"),
    fact("Served by", found.owner ? addressOf(found.owner) : "no proxy"),
    fact("End", (found.end ?? UNKNOWN).split("@")[0], `starts at ${found.start.split("@")[0]}`));
}

function segmentsOf(found, chosen, choose, servers) {
  const shown = found.segments.map((one) => ({ ...one, weight: Math.max(1, one.records ?? 1) }));
  if (!shown.length && !found.older.segments) return state("Nothing written yet", "The first append begins the first segment.");
  const all = found.older.segments ? [{ ...found.older, isOlder: true, weight: Math.max(1, found.older.records) }, ...shown] : shown;
  const total = all.reduce((sum, one) => sum + one.weight, 0);
  const least = Math.min(14, WIDTH / all.length);
  const free = WIDTH - least * all.length;
  let x = 0;
  const bars = all.map((one) => {
    const width = least + (free * one.weight) / total;
    const bar = segment(one, x, width, chosen === one.segment, choose);
    x += width;
    return bar;
  });
  const picked = shown.find((one) => one.segment === chosen) ?? shown.at(-1);
  return h("section", { "aria-labelledby": "segments" },
    h("h2", { id: "segments" }, "Segments"),
    h("p", { class: "note" }, "From the oldest to the hot tail; the more records, the wider. Choose a segment to see its copies."),
    svg("svg", { class: "segments", viewBox: `0 0 ${WIDTH} 62`, preserveAspectRatio: "none", role: "group", "aria-label": "Segments" }, bars),
    h("ul", { class: "legend" }, ["archive", "hot+archive", "hot", "in progress"].map((word) => h("li", {}, h("span", { class: `swatch ${residence(word)}` }), WORDS[word]))),
    picked ? copiesOf(picked, servers) : null);
}

const WORDS = { archive: "archive only", "hot+archive": "bookies and archive", hot: "bookies only", "in progress": "being written" };
const residence = (word) => word.replace("+", "-").replace(" ", "-");

function segment(one, x, width, isChosen, choose) {
  if (one.isOlder) {
    return svg("g", { class: "segment older" }, svg("title", {}, `${plural(one.segments, "older segment")}, ${plural(one.records, "record")}, ${bytes(one.size_bytes)}`),
      svg("rect", { x, y: 8, width: Math.max(1, width - 2), height: 46 }));
  }
  const press = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(one.segment);
  };
  const kind = one.state === "in progress" ? "in-progress" : residence(one.residence);
  const label = `Segment ${one.segment}, ${one.state}, ${one.records === undefined || one.records === null ? "number of records unknown" : plural(one.records, "record")}, ${WORDS[one.state === "in progress" ? "in progress" : one.residence]}`;
  return svg("g", { class: `segment ${kind} ${isChosen ? "chosen" : ""}`, tabindex: 0, role: "button", "aria-pressed": String(isChosen), "aria-label": label, "data-key": `segment ${one.segment}`, "data-segment": one.segment, onclick: press, onkeydown: press },
    svg("title", {}, label), svg("rect", { x, y: isChosen ? 2 : 8, width: Math.max(1, width - 2), height: isChosen ? 58 : 46 }));
}

// Bookies that are not writable are marked, if the visitor may see the servers.
function copiesOf(one, servers) {
  const regions = {};
  for (const [bookie, region] of Object.entries(one.copies)) (regions[region] ??= []).push(bookie);
  const size = one.size_bytes === null || one.size_bytes === undefined ? "" : `, ${bytes(one.size_bytes)}`;
  const records = one.records === null || one.records === undefined ? "number of records unknown" : plural(one.records, "record");
  return h("div", { class: "copies" },
    h("h3", {}, `Segment ${one.segment}: ledger ${one.ledger}, ${one.state}, ${records}${size}`),
    Object.keys(regions).length
      ? h("ul", { class: "places" }, Object.keys(regions).sort().map((region) => h("li", {}, h("strong", {}, region), regions[region].map((bookie) => h("span", { class: "chip" }, bookieName(bookie), (servers[bookie]?.mode ?? "writable") === "writable" ? null : [" ", stateBadge(servers[bookie].mode)])))))
      : h("p", {}, "Only the archive holds it."));
}

function subscriptionsOf(found) {
  if (!found.subscriptions.length) return null;
  return table("Subscriptions", [
    ["Subscription", (one) => one.subscription], ["Lag", (one) => count(one.lag_records), true],
    ["Bytes behind", (one) => bytes(one.lag_bytes), true], ["Position", (one) => one.position.split("@")[0]],
  ], found.subscriptions);
}

// A pause closes the event stream; going on continues after the last record that was shown.
function liveTail(name, trace) {
  const lines = h("ol", { class: "lines", id: "lines", "data-empty": "New records appear here." });
  const status = h("p", { class: "note", id: "tail-status" }, "Waiting for records.");
  const spoken = h("p", { class: "spoken", role: "status" });
  const filter = h("input", { id: "filter", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "text in payload or key" });
  const button = h("button", { type: "button", id: "pause", "aria-pressed": "false" }, "Pause");
  const box = h("div", { class: "tail", role: "region", "aria-label": "Newest records", tabindex: "0" }, lines);
  const node = h("section", { "aria-labelledby": "tail" }, h("h2", { id: "tail" }, "Live tail"),
    h("div", { class: "bar" }, h("label", { for: "filter" }, "Filter"), filter, button), status, spoken, box);
  let following = null;
  let position = null;
  let passed = 0;
  let skipped = 0;
  let tookMs = null;
  let timer = null;

  function run() {
    following?.abort();
    following = new AbortController();
    const ask = () => ({ ...name, filter: filter.value.trim(), ...(position ? { after: position } : {}) });
    follow("/api/tail", ask, following.signal, { event: add, state: (word, error) => word === "lost" && note(`The tail is interrupted: ${error.message}.`) });
  }
  // The number of records changes all the time; only other messages are read out.
  function note(text, isSpoken = true) {
    if (status.textContent !== text) status.textContent = text;
    if (isSpoken) spoken.textContent = text;
  }
  // Of the records, one is in the order of the tabulator; the arrows lead to the others.
  function onKey(event) {
    const line = event.target.closest("li");
    const step = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
    let next = line && step ? line[step] : null;
    while (next?.hidden) next = next[step];
    if (!next) return;
    event.preventDefault();
    reach(next);
    next.querySelector("button").focus();
  }
  function reach(line) {
    lines.querySelector('button[tabindex="0"]')?.setAttribute("tabindex", "-1");
    line?.querySelector("button").setAttribute("tabindex", "0");
  }
  function add(_, found) {
    position = found.position ?? position;
    passed += found.passed;
    skipped += found.skipped;
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const arrivedMs = Date.now();
    if (found.records.length) tookMs = Math.max(0, arrivedMs - found.records.at(-1).created_ms);
    lines.append(...found.records.map((one) => line(one, () => trace(one.dlsn, arrivedMs))));
    while (lines.childElementCount > LINES_MAX) lines.firstElementChild.remove();
    if (!lines.contains(document.activeElement)) reach(lines.lastElementChild);
    if (isAtEnd) box.scrollTop = box.scrollHeight;
    if (found.error) note(`The tail ended: ${found.error}.`);
    else note(`${plural(passed, "record")} passed since this page was opened${tookMs === null ? "" : `; the last one arrived ${ms(tookMs)} after its append`}${skipped ? `; ${count(skipped)} arrived too fast to be shown` : ""}.`, false);
    if (found.error) following.abort();
  }
  function stop() {
    following?.abort();
    following = null;
  }
  lines.addEventListener("keydown", onKey);
  button.addEventListener("click", () => {
    const isPaused = following !== null;
    button.textContent = isPaused ? "Resume" : "Pause";
    button.setAttribute("aria-pressed", String(isPaused));
    if (isPaused) {
      stop();
      note(`Paused at ${(position ?? "").split("@")[0]}.`);
    } else run();
  });
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const one of lines.children) one.hidden = !one.dataset.text.includes(wanted);
    clearTimeout(timer);
    timer = setTimeout(() => following && run(), 300);
  });
  run();
  return { node, close: stop };
}

function line(one, trace) {
  const value = one.payload ?? one.payload_hex ?? "";
  return h("li", { "data-dlsn": one.dlsn, "data-text": `${one.key ?? one.key_hex ?? ""}\n${value}`.toLowerCase() }, h("span", { class: "at" }, new Date(one.created_ms).toISOString().slice(11, 23)), h("button", { type: "button", class: "at", tabindex: -1, "aria-label": `Trace ${one.dlsn.split("@")[0]}`, onclick: trace }, one.dlsn.split("@")[0]),
    one.key ?? one.key_hex ? h("span", { class: "chip" }, one.key ?? one.key_hex) : null, h("span", { class: "payload" }, value));
}
