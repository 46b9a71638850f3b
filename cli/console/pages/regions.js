// Regions: a ring of the regions with their servers, round trips and traffic, and what is wrong.

import { badge, bookieName, bytes, count, fact, groupedAlerts, h, kindOf, ms, plural, rate, render, show, state, stateBadge, streamLink, svg, table, UNKNOWN, withCode } from "./dom.js";

const isNarrow = matchMedia("(max-width: 760px)");
const SERVERS_DRAWN = 40;
const STREAMS_SHOWN = 5;

export function regionsPage(main) {
  const ring = h("figure", { class: "ring" });
  const facts = h("dl", { class: "facts" });
  const alerts = h("section", { "aria-label": "Alerts and busiest streams" });
  const tables = h("div", {});
  let chosen = null;
  let latest = null;
  const choose = (name) => {
    chosen = chosen === name ? null : name;
    draw(latest);
  };
  show(main, h("h1", {}, "Regions"), state("Loading", "Taking the first sample."));

  function draw(found) {
    latest = found;
    if (!Object.keys(found.regions).length) {
      show(main, h("h1", {}, "Regions"), state("No region yet", "No bookie has been formatted, and no region has been declared."));
      return;
    }
    if (!main.contains(ring)) show(main, h("h1", {}, "Regions"), facts, h("div", { class: "columns" }, ring, alerts), tables);
    render(facts, factsOf(found));
    render(ring, drawRing(found, chosen, choose), legend());
    render(alerts, alertsOf(found), busiestOf(found));
    render(tables, tablesOf(found, chosen, choose));
  }
  return { update: draw };
}

function factsOf(found) {
  const regions = Object.values(found.regions);
  const sum = (key) => regions.reduce((total, one) => total + (one[key] ?? 0), 0);
  const up = regions.filter((one) => one.state === "open").length;
  const [writable, bookies] = [sum("writable"), sum("bookies")];
  const alerts = Object.values(found.alerts);
  const faults = alerts.filter((one) => one.verdict === "fault").length;
  const waiting = found.repair.ledgers_waiting;
  const silent = regions.filter(isSilent).map((one) => one.region);
  const isMeasured = regions.some((one) => one.adds_per_second !== undefined);
  return [
    fact("Alerts", faults ? plural(faults, "fault") : alerts.length ? plural(alerts.length, "warning") : "none", faults && alerts.length > faults ? `and ${plural(alerts.length - faults, "warning")}` : null, faults ? "bad" : alerts.length ? "warn" : ""),
    fact("Regions open", `${up} of ${regions.length}`, silent.length ? `no response: ${silent.join(", ")}` : null, up < regions.length || silent.length ? "bad" : ""),
    fact("Bookies writable", `${count(writable)} of ${count(bookies)}`, null, writable < bookies ? "warn" : ""),
    fact("Entries added", isMeasured ? `${rate(sum("adds_per_second"))}/s` : UNKNOWN, isMeasured ? `${bytes(sum("written_bytes_per_second"))}/s, all copies` : "not known"),
    fact("Waiting for repair", plural(waiting, "ledger"), null, waiting ? "warn" : ""),
    fact("Quorum", found.cluster.quorum ?? UNKNOWN, found.cluster.quorum ? `new segments in ${found.cluster.namespace}` : `no namespace ${found.cluster.namespace}`),
  ];
}

// A region with bookies none of which responds to the console: it is cut off, or lost.
const isSilent = (one) => one.writable > 0 && one.round_trip_ms === undefined;

// The size of the map and of the ellipse on which the regions are; on a phone it is narrow and high.
function layout(total) {
  if (!isNarrow.matches) return { width: 760, height: 340, across: 255, down: 118 };
  const down = total > 4 ? 45 * total : 135;
  return { width: 470, height: 2 * down + 120, across: 148, down };
}

function place(index, total, { width, height, across, down }) {
  const angle = -Math.PI / 2 + (2 * Math.PI * index) / total;
  return total === 1 ? [width / 2, height / 2] : [width / 2 + across * Math.cos(angle), height / 2 + (total === 3 ? 30 : 0) + down * Math.sin(angle)];
}

function drawRing(found, chosen, choose) {
  const names = Object.keys(found.regions).sort();
  const size = layout(names.length);
  const at = Object.fromEntries(names.map((name, index) => [name, place(index, names.length, size)]));
  const own = found.cluster.region;
  const lines = [];
  for (let a = 0; a < names.length; a += 1) {
    for (let b = a + 1; b < names.length; b += 1) lines.push(link(found, names[a], names[b], at, own));
  }
  const nodes = names.map((name) => region(found, name, at[name], chosen === name, choose));
  const words = names.map((name) => `${name} is ${found.regions[name].state}`).join(", ");
  return svg("svg", { viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": `Map of the regions: ${words}` }, lines, nodes);
}

function link(found, a, b, at, own) {
  const traffic = (found.traffic[`${a}>${b}`] ?? 0) + (found.traffic[`${b}>${a}`] ?? 0);
  const isOwn = a === own || b === own;
  const far = found.regions[a === own ? b : a];
  const isCut = isOwn && isSilent(far);
  const width = traffic ? 1.5 + Math.min(7, Math.log10(1 + traffic / 1024) * 2) : 1.5;
  const [[x1, y1], [x2, y2]] = [at[a], at[b]];
  const adds = [found.add_times[`${a}>${b}`], found.add_times[`${b}>${a}`]].filter((one) => one !== undefined);
  const words = [];
  if (isCut) words.push("no response");
  else if (isOwn && far.round_trip_ms !== undefined) words.push(ms(far.round_trip_ms));
  else if (adds.length) words.push(`adds ${ms(Math.min(...adds))}`);
  if (traffic) words.push(`${bytes(traffic)}/s`);
  const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
  return svg("g", { class: `link ${isCut ? "cut" : words.length ? "" : "unmeasured"}` },
    svg("line", { x1, y1, x2, y2, "stroke-width": width }),
    words.length ? svg("text", { y: y - 8, "text-anchor": "middle" }, labelOf(words, x)) : null);
}

// On a phone the parts of a label are one below the other.
const labelOf = (words, x) => (isNarrow.matches
  ? words.map((word, index) => svg("tspan", { x, dy: index * 17 }, word))
  : svg("tspan", { x }, words.join(" · ")));

function region(found, name, [x, y], isChosen, choose) {
  const one = found.regions[name];
  const servers = Object.entries(found.servers).filter(([, server]) => server.region === name).sort(([a, one], [b, other]) => urgency(other) - urgency(one) || a.localeCompare(b));
  const shown = servers.slice(0, SERVERS_DRAWN);
  const columns = Math.min(8, Math.max(3, shown.length));
  const rows = Math.max(1, Math.ceil(shown.length / columns));
  const width = Math.max(isNarrow.matches ? 212 : 196, columns * 22 + 24);
  const height = 82 + rows * 22;
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(name);
  };
  const more = servers.length > shown.length ? `, ${servers.length - shown.length} more` : "";
  const down = one.bookies - one.writable;
  const word = isSilent(one) ? "no response" : one.state === "open" && down ? `${one.writable}/${one.bookies} writable` : one.state;
  const kind = isSilent(one) ? "bad" : one.state === "open" && down ? "warn" : kindOf(one.state);
  const work = one.adds_per_second === undefined ? "rates unknown" : `${rate(one.adds_per_second)} adds/s · ${bytes(one.written_bytes_per_second)}/s`;
  const open = `${one.open_ledgers === undefined ? "open ledgers unknown" : plural(one.open_ledgers, "open ledger")}${more}`;
  const label = `${name}, ${one.state}${isSilent(one) ? ", no response" : ""}, ${work}, ${open}, ${one.writable} of ${plural(one.bookies, "bookie")} writable`;
  // The button is the box behind the texts, so that the tooltips of the servers stay reachable.
  return svg("g", { class: `region ${kind} ${isChosen ? "chosen" : ""}`, "data-region": name, "data-state": one.state, transform: `translate(${x - width / 2} ${y - height / 2})`, onclick: () => choose(name) },
    svg("rect", { width, height, rx: 10, role: "button", tabindex: 0, "data-key": `region ${name}`, "aria-pressed": String(isChosen), "aria-label": label, onkeydown: press }),
    svg("g", { "aria-hidden": "true" },
      svg("text", { x: 12, y: 22, class: "name" }, name),
      svg("text", { x: width - 12, y: 22, "text-anchor": "end", class: "word standing" }, word),
      svg("text", { x: 12, y: 41, class: "word" }, work),
      svg("text", { x: 12, y: 57, class: "word" }, open)),
    shown.map(([id, server], index) => dot(id, server, 22 + (index % columns) * 22, 78 + Math.floor(index / columns) * 22)));
}

// Servers that need attention come first, then those that are being written.
const urgency = (server) => ({ bad: 4, warn: 2 })[kindOf(server.mode)] ?? (server.open_ledgers ? 1 : 0);

// A bookie is a circle, another server a square; the mark inside tells the state without color.
function dot(id, server, x, y) {
  const kind = kindOf(server.mode);
  const isBookie = server.kind === "bookie";
  const mark = kind === "bad" ? svg("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }) : kind === "warn" ? svg("path", { d: `M${x} ${y - 4}v4m0 3v1` }) : null;
  return svg("g", { class: `server ${kind} ${server.open_ledgers ? "written" : ""}`, "data-server": id, "data-mode": server.mode },
    svg("title", {}, `${server.kind} ${id}: ${server.mode}${server.open_ledgers ? `, ${plural(server.open_ledgers, "open ledger")}` : ""}`),
    isBookie ? svg("circle", { cx: x, cy: y, r: 8 }) : svg("rect", { x: x - 7, y: y - 7, width: 14, height: 14, rx: 2 }), mark);
}

function legend() {
  const line = (kind) => svg("g", { class: `example ${kind}` }, svg("line", { x1: 1, y1: 10, x2: 19, y2: 10, "stroke-width": 2 }));
  const item = (kind, words, shape) => h("li", {}, svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" },
    shape ?? dot("", { kind: "bookie", mode: kind }, 10, 10)), words);
  return h("figcaption", {}, h("ul", { class: "legend" },
    item("writable", "writable"), item("read-only", "restricted"), item("down", "down"),
    item("", "being written (ring)", dot("", { kind: "bookie", mode: "writable", open_ledgers: 1 }, 10, 10)),
    item("", "proxy or repair", dot("", { kind: "proxy", mode: "running" }, 10, 10)),
    item("", "cut off", line("cut")), item("", "not measured", line("unmeasured"))));
}

function alertsOf(found) {
  const rows = groupedAlerts(found.alerts);
  return [h("h2", { id: "alerts" }, "Alerts"), rows.length
    ? h("ul", { class: "alerts" }, rows.map((one) => h("li", { "data-key": one.key }, stateBadge(one.verdict), h("strong", {}, ` ${one.subject}`), h("p", {}, withCode(one.detail)))))
    : h("p", {}, "Nothing is wrong.")];
}

function busiestOf(found) {
  const rows = Object.values(found.streams).filter((one) => one.records_per_second > 0)
    .sort((a, b) => b.records_per_second - a.records_per_second).slice(0, STREAMS_SHOWN);
  return [h("h2", {}, "Busiest streams"), rows.length
    ? h("ul", { class: "pairs" }, rows.map((one) => h("li", { "data-key": `busy ${one.stream}` }, streamLink(one.stream), h("span", { class: "number" }, `${rate(one.records_per_second)}/s`))))
    : h("p", { class: "note" }, "No stream that was examined is written to now.")];
}

function tablesOf(found, chosen, choose) {
  const regions = Object.values(found.regions);
  const attention = (one) => Math.max(1, urgency({ mode: one.mode }));
  const servers = Object.values(found.servers).filter((one) => !chosen || one.region === chosen).sort((a, b) => attention(b) - attention(a));
  return [
    table("Regions", [
      ["Region", (one) => one.region], ["State", (one) => [stateBadge(one.state), isSilent(one) ? [" ", badge("no response", "bad")] : null]],
      ["Writable", (one) => `${one.writable} of ${one.bookies}`, true],
      ["Round trip", (one) => ms(one.round_trip_ms), true],
      ["Adds/s", (one) => rate(one.adds_per_second), true],
      ["Written", (one) => (one.written_bytes_per_second === undefined ? UNKNOWN : `${bytes(one.written_bytes_per_second)}/s`), true],
      ["Add p99", (one) => ms(one.add_p99_ms), true],
      ["Open ledgers", (one) => count(one.open_ledgers), true],
      ["Free", (one) => bytes(one.free_bytes || undefined), true],
    ], regions, (one) => one.region),
    chosen ? h("p", {}, `Only the servers of ${chosen} are listed. `, h("button", { type: "button", "data-key": "all", onclick: () => choose(chosen) }, "Show all")) : null,
    table(chosen ? `Servers in ${chosen}` : "Servers", [
      ["Server", (one) => bookieName(one.server)], ["State", (one) => stateBadge(one.mode)],
      ["Kind", (one) => h("span", { class: "id" }, one.kind)], ["Region", (one) => one.region], ["Rack", (one) => one.rack ?? UNKNOWN],
      ["Work/s", (one) => rate(one.work_per_second), true], ["p99", (one) => ms(one.p99_ms), true],
      ["Open ledgers", (one) => (one.kind === "bookie" ? count(one.open_ledgers) : UNKNOWN), true],
      ["Free", (one) => bytes(one.free_bytes), true], ["Load", (one) => h("span", { class: "id" }, one.load)],
    ], servers, (one) => one.server),
  ];
}
