// The player of a replay: a map, a time slider with the faults, and the list of events.

import { count, h, show, svg } from "./dom.js";
import { drawMap, drawStrip, mapLayout } from "./chaos_map.js";
import { AT, HOLDERS, indexAt, KIND, SOURCE, STATE, TARGET, TEXT, worldStates } from "./chaos_state.js";

const ROWS = 120;
const SPEEDS = [[0.01, "1/100"], [0.05, "1/20"], [0.25, "1/4"], [1, "1"], [4, "4"]];
const SHOWN_MS = 350; // time for which an arrow stays while the run is played, in milliseconds
const WINDOW_MS_MIN = 12;
const KINDS = { message: "Messages", append: "Appends", fence: "Fences", server: "Servers", path: "Links", fault: "Faults", protocol: "Log", metadata: "Metadata", note: "Notes" };

const seconds = (ms) => `${(ms / 1000).toFixed(3)} s`;
const isOf = (event, server) => !server || event[SOURCE] === server || event[TARGET] === server || (event[HOLDERS] ?? []).includes(server);

export function replayPlayer(replay) {
  const { events } = replay;
  const layout = mapLayout(replay);
  const states = worldStates(replay);
  const kinds = new Set(Object.keys(KINDS).filter((kind) => kind !== "metadata"));
  const lastMs = Math.max(replay.lasts_ms, events.at(-1)?.[AT] ?? 0);
  let visible = [];
  let atMs = firstMoment();
  let index = -1;
  let speed = 0.05;
  let playing = null;

  const map = h("div", { class: "stage" });
  const list = h("ol", { class: "trace", id: "trace" });
  const box = h("div", { class: "trace-box", tabindex: 0, role: "region", "aria-label": "Events" }, list);
  const clock = h("output", { id: "clock" });
  const told = h("p", { id: "told", class: "told" });
  const spoken = h("p", { class: "spoken", role: "status" });
  const slider = h("input", { type: "range", id: "time", min: 0, max: Math.ceil(lastMs), step: 1, "aria-label": "Virtual time" });
  const needle = svg("line", { class: "needle", y1: 0, y2: 46 });
  const strip = drawStrip(replay);
  strip.append(needle);
  const play = h("button", { type: "button", id: "play", onclick: toggle }, "Play");
  const rate = h("select", { id: "speed", onchange: () => { speed = Number(rate.value); } }, SPEEDS.map(([value, text]) => h("option", { value, selected: value === speed }, `${text} of real time`)));
  const server = h("select", { id: "of-server", onchange: filter }, h("option", { value: "" }, "All servers"), replay.servers.map((one) => h("option", { value: one.server }, one.server)));
  const toggles = h("div", { class: "kinds", role: "group", "aria-label": "Kinds of events" });
  const number = h("p", { class: "note", id: "number-of-events" });
  const button = (id, text, title, onclick) => h("button", { type: "button", id, title, "aria-label": title, onclick }, text);

  const node = h("section", { class: "player", "aria-label": "Trace", onkeydown: onKey },
    h("div", { class: "player-columns" },
      h("div", { class: "ring" }, map, told, legend()),
      h("div", { class: "events" },
        h("div", { class: "bar" }, h("label", { for: "of-server" }, "Server"), server), toggles, number, box)),
    h("div", { class: "transport" },
      h("div", { class: "time" }, strip, slider),
      h("div", { class: "bar" },
        button("to-start", "Start", "To the start", () => stepTo(visible[0] ?? 0)),
        button("back", "◀", "Previous event", () => step(-1)), play,
        button("forward", "▶", "Next event", () => step(1)),
        button("to-fault", "Next fault", "Next fault", nextFault), clock,
        h("label", { for: "speed" }, "Speed"), rate,
        h("p", { class: "note" }, "Keys in the player: space plays and pauses, the arrows go to the next or previous event, F goes to the next fault or fence."))),
    spoken);

  slider.addEventListener("input", () => {
    pause();
    atMs = Number(slider.value);
    index = indexAt(events, atMs);
    draw();
  });

  function firstMoment() {
    const first = events.find((event) => event[KIND] === "fault") ?? events.find((event) => event[KIND] === "append");
    return first ? first[AT] : 0;
  }

  function showToggles() {
    const counts = {};
    for (const event of events) counts[event[KIND]] = (counts[event[KIND]] ?? 0) + 1;
    show(toggles, Object.entries(KINDS).filter(([kind]) => counts[kind]).map(([kind, text]) =>
      h("button", { type: "button", "data-key": `only ${kind}`, "data-kind": kind, "aria-pressed": String(kinds.has(kind)), onclick: () => {
        if (kinds.has(kind)) kinds.delete(kind);
        else kinds.add(kind);
        showToggles();
        filter();
      } }, `${text} ${count(counts[kind])}`)));
  }

  function filter() {
    visible = [];
    events.forEach((event, at) => {
      if (kinds.has(event[KIND]) && isOf(event, server.value)) visible.push(at);
    });
    number.textContent = `${count(visible.length)} of ${count(events.length)} events`;
    draw();
  }

  /** The position in `visible` of the last event up to `index`; -1 if there is none. */
  function visibleAt() {
    let [low, high] = [0, visible.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (visible[middle] <= index) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  function stepTo(at) {
    pause();
    if (!events.length) return;
    index = at;
    atMs = events[at][AT];
    draw();
    spoken.textContent = `${seconds(atMs)}, ${sentence(events[at])}`;
  }
  function step(by) {
    const here = visibleAt();
    const isOn = here >= 0 && visible[here] === index;
    const next = by > 0 ? here + 1 : isOn ? here - 1 : here;
    if (next >= 0 && next < visible.length) stepTo(visible[next]);
  }
  function nextFault() {
    const next = events.findIndex((event, at) => at > index && (event[KIND] === "fault" || event[KIND] === "fence"));
    if (next >= 0) stepTo(next);
  }

  function toggle() {
    if (playing !== null) return void pause();
    if (atMs >= lastMs) [atMs, index] = [0, -1];
    let before = performance.now();
    const tick = (now) => {
      atMs = Math.min(lastMs, atMs + (now - before) * speed);
      before = now;
      index = indexAt(events, atMs);
      draw();
      if (atMs >= lastMs) pause();
      else playing = requestAnimationFrame(tick);
    };
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    playing = requestAnimationFrame(tick);
  }
  function pause() {
    if (playing !== null) cancelAnimationFrame(playing);
    playing = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const isButton = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY";
    const action = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), f: nextFault, F: nextFault, " ": isButton ? null : toggle }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  function draw() {
    const now = states.at(index);
    const windowMs = Math.max(WINDOW_MS_MIN, SHOWN_MS * speed);
    let from = index;
    while (from >= 0 && events[from][AT] > atMs - windowMs) from -= 1;
    show(map, drawMap(layout, now, events.slice(from + 1, index + 1), atMs, windowMs));
    const x = (1000 * atMs) / Math.max(1, replay.lasts_ms);
    needle.setAttribute("x1", x);
    needle.setAttribute("x2", x);
    slider.value = atMs;
    slider.setAttribute("aria-valuetext", seconds(atMs));
    clock.textContent = seconds(atMs);
    told.textContent = summary(replay, now, atMs);
    drawList();
  }

  function drawList() {
    const here = visibleAt();
    const first = Math.max(0, Math.min(here - ROWS / 2, visible.length - ROWS));
    show(list, visible.slice(first, first + ROWS).map((at) => row(events[at], at === index, visible[here] === at, () => stepTo(at))));
    const current = list.querySelector("[aria-current]");
    if (current) box.scrollTop = current.offsetTop - box.clientHeight / 2;
    else box.scrollTop = 0;
  }

  showToggles();
  index = indexAt(events, atMs);
  filter();
  return { node, hasEvents: events.length > 0, close: pause };
}

const MARKS = { message: "→", append: "✓", fence: "‖", server: "●", path: "⇹", fault: "⚡", protocol: "i", metadata: "m", note: "·" };

function row(event, isExact, isCurrent, onclick) {
  const mark = event[KIND] === "append" && event[STATE] === "failed" ? "✗" : MARKS[event[KIND]];
  return h("li", { class: `of-${event[KIND]} ${event[STATE] ? `is-${event[STATE]}` : ""}`, "aria-current": isCurrent ? (isExact ? "step" : "true") : null },
    h("button", { type: "button", tabindex: -1, onclick },
      h("span", { class: "at" }, (event[AT] / 1000).toFixed(3)), h("span", { class: "mark", "aria-hidden": "true" }, mark), h("span", { class: "payload" }, sentence(event))));
}

function sentence(event) {
  const [, kind, source, target, , text] = event;
  if (kind === "message") return `${source} → ${target}: ${text}`;
  if (kind === "path" || kind === "fault") return text;
  return `${source}: ${text}`;
}

function summary(replay, now, atMs) {
  const faults = replay.faults.filter(([begin, end]) => begin <= atMs && end !== null && end > atMs).map(([, , text]) => text);
  const last = now.lastAck >= 0 ? replay.events[now.lastAck] : null;
  const regions = new Set((last?.[HOLDERS] ?? []).map((name) => replay.servers.find((one) => one.server === name)?.region));
  const held = last ? `The last acknowledged append is durable on ${(last[HOLDERS] ?? []).length} bookies in ${regions.size} regions (required: ${replay.quorum.ack_quorum} in ${replay.quorum.min_regions}).` : "Nothing is acknowledged yet.";
  return `${count(now.acked)} appends acknowledged. ${held} ${faults.length ? `Faults now: ${faults.join(", ")}.` : "No lasting fault is active now."}`;
}

function legend() {
  const item = (words, ...shape) => h("li", {}, svg("svg", { viewBox: "0 0 36 36", width: 18, height: 18, "aria-hidden": "true" }, shape), words);
  const dot = (kind, ...more) => svg("g", { class: `server ${kind}` }, svg("circle", { cx: 18, cy: 18, r: 10 }), more);
  const line = (kind) => svg("g", { class: `arrow ${kind}` }, svg("line", { x1: 2, y1: 18, x2: 28, y2: 18 }), svg("path", { d: "M34 18l-9 -5v10z" }));
  return h("ul", { class: "legend" },
    item("add", line("add")), item("confirmed", line("ok")), item("refused", line("refused")), item("other message", line("other")),
    item("holds the acknowledged record", dot("good", svg("circle", { cx: 18, cy: 18, r: 15, class: "halo" }))),
    item("fences", dot("good", svg("path", { class: "bars", d: "M4 5v26m28 -26v26" }))),
    item("down", dot("bad", svg("path", { d: "M13 13l10 10m0 -10l-10 10" }))),
    item("cut off", dot("good", svg("rect", { x: 2, y: 2, width: 32, height: 32, rx: 5, class: "wall" }))));
}
