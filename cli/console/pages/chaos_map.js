// The map of a replay: regions with their servers, and what passed between them a moment ago.

import { svg } from "./dom.js";
import { AT, HOLDERS, KIND, SOURCE, STATE, TARGET, TEXT } from "./chaos_state.js";

const isNarrow = matchMedia("(max-width: 760px)");
const CELL = 62;
const ROW = 52;
const HEAD = 34;
const ARROWS_MAX = 80;
const SIN_60 = Math.sin(Math.PI / 3);

/** Place the regions and servers of a replay; the result does not change while it is played. */
export function mapLayout(replay) {
  const regions = replay.regions.map((name) => ({ name, servers: replay.servers.filter((one) => one.region === name) }));
  const most = Math.max(1, ...regions.map((one) => one.servers.length));
  const columns = isNarrow.matches ? 2 : Math.min(4, Math.max(2, Math.ceil(most / 2)));
  const boxWidth = columns * CELL + 20;
  const boxHeight = HEAD + Math.ceil(most / columns) * ROW + 10;
  const total = regions.length;
  const between = isNarrow.matches ? 50 : 110;
  const across = total === 1 ? 0 : total > 3 ? 1.15 * boxWidth : (boxWidth + between) / (2 * SIN_60);
  const down = total === 1 ? 0 : total > 3 ? 1.1 * boxHeight : (boxHeight + 50) / 1.5;
  const [width, height] = [2 * across + boxWidth + 24, 2 * down * (total === 3 ? 0.75 : 1) + boxHeight + 24];
  const middle = total === 3 ? 12 + boxHeight / 2 + down : height / 2;
  const places = new Map();
  regions.forEach((one, index) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * index) / total;
    one.x = width / 2 + across * Math.cos(angle);
    one.y = middle + down * Math.sin(angle);
    one.left = one.x - boxWidth / 2;
    one.top = one.y - boxHeight / 2;
    one.servers.forEach((server, at) => {
      const x = one.left + 10 + CELL * (at % columns) + CELL / 2;
      const y = one.top + HEAD + ROW * Math.floor(at / columns) + 14;
      places.set(server.server, { x, y, region: one.name, label: labelOf(server) });
    });
  });
  return { width, height, boxWidth, boxHeight, regions, places, links: replay.links };
}

const labelOf = ({ server, region }) => server.replace(`-${region}`, "");

/** Draw the state `now`; `recent` are the events of the moment, the oldest first. */
export function drawMap(layout, now, recent, atMs, windowMs) {
  const age = (event) => Math.min(1, Math.max(0, (atMs - event[AT]) / windowMs));
  const arrows = recent.filter((one) => one[KIND] === "message").slice(-ARROWS_MAX);
  const fences = new Set(recent.filter((one) => one[KIND] === "fence").map((one) => one[SOURCE]));
  const acks = recent.filter((one) => one[KIND] === "append" && one[STATE] === "ok");
  const holders = new Set(acks.flatMap((one) => one[HOLDERS] ?? []));
  const down = [...layout.places.keys()].filter((name) => (now.servers.get(name) ?? "none") === "down");
  const cut = layout.regions.filter((one) => layout.regions.some((other) => now.cuts.has(`${one.name}>${other.name}`))).map((one) => one.name);
  const words = [`${layout.places.size - down.length} of ${layout.places.size} servers are up`, down.length ? `down: ${down.join(", ")}` : "", cut.length ? `cut links at ${cut.join(", ")}` : "no link between regions is cut"].filter(Boolean).join("; ");
  return svg("svg", { viewBox: `0 0 ${layout.width} ${layout.height}`, role: "img", "aria-label": `Map: ${words}`, class: "world-map" },
    links(layout, now),
    layout.regions.map((one) => region(layout, one)),
    arrows.map((event) => arrow(layout, event, age(event))),
    [...layout.places].map(([name, place]) => server(name, place, now, fences.has(name), holders.has(name))));
}

function links(layout, now) {
  const drawn = [];
  for (let a = 0; a < layout.regions.length; a += 1) {
    for (let b = a + 1; b < layout.regions.length; b += 1) {
      const [one, other] = [layout.regions[a], layout.regions[b]];
      const out = now.cuts.has(`${one.name}>${other.name}`);
      const back = now.cuts.has(`${other.name}>${one.name}`);
      const found = layout.links.find(({ between }) => between.includes(one.name) && between.includes(other.name));
      const text = out && back ? "cut" : out ? `cut from ${one.name}` : back ? `cut from ${other.name}` : found ? `${found.round_trip_ms} ms` : "";
      const [x, y] = [(one.x + other.x) / 2, (one.y + other.y) / 2];
      drawn.push(svg("g", { class: `link ${out || back ? "cut" : ""}`, "data-link": `${one.name}-${other.name}` },
        svg("line", { x1: one.x, y1: one.y, x2: other.x, y2: other.y, "stroke-width": out || back ? 3 : 1.5 }),
        svg("text", { x, y: y + (Math.abs(one.y - other.y) < 1 ? 22 : 4), "text-anchor": "middle" }, text)));
    }
  }
  return drawn;
}

function region(layout, one) {
  return svg("g", { class: "place" },
    svg("rect", { x: one.left, y: one.top, width: layout.boxWidth, height: layout.boxHeight, rx: 10 }),
    svg("text", { x: one.left + 12, y: one.top + 21, class: "name" }, one.name));
}

// A bookie is a circle, any other program a square. Marks inside tell the state without color.
function server(name, { x, y, label }, now, isFenced, isHolder) {
  const state = now.servers.get(name) ?? "none";
  const isCut = now.cuts.has(`${name}>*`) || now.cuts.has(`*>${name}`);
  const kind = state === "up" ? "good" : state === "paused" ? "warn" : state === "down" ? "bad" : "plain";
  const isBookie = name.startsWith("bookie");
  const words = [state === "none" ? "not started" : state, isCut ? "cut off" : "", now.writer === name ? "the writer" : "", isFenced ? "fenced a ledger" : "", isHolder ? "holds the acknowledged record" : ""].filter(Boolean).join(", ");
  return svg("g", { class: `server ${kind} ${isFenced ? "fenced" : ""} ${isHolder ? "holder" : ""} ${isCut ? "isolated" : ""}`, "data-server": name, "data-state": state },
    svg("title", {}, `${name}: ${words}`),
    isHolder ? svg("circle", { cx: x, cy: y, r: 15, class: "halo" }) : null,
    isCut ? svg("rect", { x: x - 16, y: y - 16, width: 32, height: 32, rx: 5, class: "wall" }) : null,
    isBookie ? svg("circle", { cx: x, cy: y, r: 10 }) : svg("rect", { x: x - 9, y: y - 9, width: 18, height: 18, rx: 3 }),
    state === "down" ? svg("path", { d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }) : null,
    state === "paused" ? svg("path", { d: `M${x - 3} ${y - 5}v10m6 -10v10` }) : null,
    isFenced ? svg("path", { class: "bars", d: `M${x - 13} ${y - 13}v26m26 -26v26` }) : null,
    svg("text", { x, y: y + 27, "text-anchor": "middle", class: now.writer === name ? "label writer" : "label" }, label));
}

function arrow(layout, event, age) {
  const [from, to] = [layout.places.get(event[SOURCE]), layout.places.get(event[TARGET])];
  if (!from || !to || from === to) return null;
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  const [ux, uy] = [dx / length, dy / length];
  // Opposite directions are drawn beside each other.
  const [x1, y1] = [from.x + ux * 13 - uy * 3, from.y + uy * 13 + ux * 3];
  const [x2, y2] = [to.x - ux * 14 - uy * 3, to.y - uy * 14 + ux * 3];
  const kind = event[STATE] === "refused" ? "refused" : event[TEXT].startsWith("add ") ? (event[STATE] === "ok" ? "ok" : "add") : "other";
  return svg("g", { class: `arrow ${kind}`, opacity: (1 - 0.85 * age).toFixed(2) },
    svg("line", { x1, y1, x2, y2 }),
    svg("path", { d: `M${x2} ${y2}l${-8 * ux - 4 * uy} ${-8 * uy + 4 * ux}l${8 * uy} ${-8 * ux}z` }));
}

/** The strip above the time slider: faults as bands, and acknowledged appends as bars. */
export function drawStrip(replay) {
  const [width, height, bars] = [1000, 46, 120];
  const x = (ms) => (width * ms) / Math.max(1, replay.lasts_ms);
  const counts = new Array(bars).fill(0);
  for (const event of replay.events) {
    if (event[KIND] === "append" && event[STATE] === "ok") counts[Math.min(bars - 1, Math.floor((bars * event[AT]) / Math.max(1, replay.lasts_ms)))] += 1;
  }
  const most = Math.max(1, ...counts);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "strip", role: "img", "aria-label": `${replay.faults.length} faults and the acknowledged appends over time` },
    replay.faults.map(([begin, end, text]) => svg("rect", { class: "fault", x: x(begin), y: 0, width: Math.max(2, x(end ?? begin) - x(begin)), height }, svg("title", {}, text))),
    counts.map((number, index) => (number ? svg("rect", { class: "acks", x: (width * index) / bars + 1, y: height - (height - 8) * (number / most), width: width / bars - 2, height: (height - 8) * (number / most) }) : null)));
}
