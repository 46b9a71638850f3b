// Operations: work in progress and what it waits for, alerts with their runbooks, and actions.

import { offer } from "./actions.js";
import { get } from "./api.js";
import { badge, bookieName, bytes, count, fact, groupedAlerts, h, ms, plural, render, show, state, stateBadge, table, UNKNOWN, withCode } from "./dom.js";
import { poll } from "./poll.js";

const INTERVAL_MS = 3000;

export function operationsPage(main, parameters, frame) {
  const head = h("div", {});
  const body = h("div", {});
  const alerts = h("section", { "aria-labelledby": "alerts" });
  let runbook = {};
  let latest = null;
  let cluster = frame.snapshot();
  show(main, h("h1", {}, "Operations"), head, alerts, body);
  show(body, state("Loading", "Reading the state of repair, drains and archiving."));
  readRunbook();

  async function readRunbook() {
    try {
      runbook = await get("/pages/runbook.json");
      drawAlerts();
    } catch {
      runbook = {}; // the alerts then name their sections without the text
    }
  }
  function drawAlerts() {
    if (cluster) render(alerts, ...alertsOf(cluster, runbook));
  }
  function draw() {
    if (latest) render(head, ...headOf(latest));
    if (latest) render(body, ...workOf(latest, cluster, frame, () => polling.again()));
  }
  const polling = poll({
    intervalMs: INTERVAL_MS, frame, blank: body, what: "The work in progress",
    read: (signal) => get("/api/operations", {}, signal),
    draw(found) {
      latest = found;
      draw();
    },
  });
  drawAlerts();
  return {
    update(found) {
      const before = JSON.stringify(cluster?.alerts);
      cluster = found;
      if (before !== JSON.stringify(found.alerts) || !alerts.childElementCount) drawAlerts();
    },
    close: polling.close,
  };
}

function alertsOf(found, runbook) {
  const rows = groupedAlerts(found.alerts);
  return [h("h2", { id: "alerts" }, "Alerts"), rows.length
    ? h("ul", { class: "cards" }, rows.map((one) => h("li", { class: "card", "data-key": one.key },
      h("p", {}, stateBadge(one.verdict), h("strong", {}, ` ${one.subject}`)), h("p", {}, withCode(one.detail)),
      runbook[one.runbook] ? sectionOf(one, runbook[one.runbook]) : one.runbook ? h("p", { class: "note" }, `Runbook: ${one.runbook}`) : null)))
    : h("p", {}, "Nothing is wrong.")];
}

function sectionOf(one, parts) {
  return h("details", { "data-key": `runbook ${one.subject}` },
    h("summary", { "data-key": `summary ${one.subject}` }, `Runbook: ${one.runbook}`),
    h("dl", { class: "runbook" }, Object.entries(parts).map(([part, text]) => [h("dt", {}, part), h("dd", {}, withCode(text))])));
}

function headOf(found) {
  const waiting = found.repair.reduce((sum, one) => sum + one.waiting, 0);
  const left = found.drains.reduce((sum, one) => sum + one.bytes, 0);
  const behind = found.archiving.map((one) => one.waiting).filter((one) => one !== null && one !== undefined);
  return [
    h("dl", { class: "facts" },
      fact("Blocked", found.blocked.length ? plural(found.blocked.length, "item") : "nothing", null, found.blocked.length ? "warn" : ""),
      fact("Repair", found.repair.some((one) => one.obstacle) ? "not running" : "running", `${plural(waiting, "ledger")} waiting`, found.repair.some((one) => one.obstacle) ? "warn" : ""),
      fact("Drains", found.drains.length ? count(found.drains.length) : "none", found.drains.length ? `${bytes(left)} left` : null),
      fact("Rebalancing", found.rebalance?.status ?? "not ordered", found.rebalance ? `${bytes(found.rebalance.left_bytes)} left` : null),
      fact("Waiting for the archive", behind.length ? plural(behind.reduce((a, b) => a + b, 0), "segment") : found.archiving.length ? UNKNOWN : "no archiver"),
      fact("Metadata stores", `${count(found.stores.filter((one) => !one.error).length)} of ${count(found.stores.length)}`, "respond", found.stores.some((one) => one.error) ? "bad" : "")),
    ...found.stores.filter((one) => one.error).map((one) => h("p", {}, stateBadge("unreachable"), ` metadata store of ${one.store}: ${one.error}`)),
    blockedOf(found.blocked),
  ];
}

function workOf(found, cluster, frame, reload) {
  return [
    found.migration ? migrationOf(found.migration) : null,
    found.down.length ? [h("h2", {}, "Bookies that are down"), downOf(found, frame, reload)] : null,
    h("h2", {}, "Drains"), drainsOf(found, frame, reload),
    h("h2", {}, "Repair"), ...found.repair.map((one) => repairOf(one)),
    found.rebalance ? rebalanceOf(found.rebalance) : null,
    found.archiving.length ? archivingOf(found.archiving) : null,
    cluster && frame.mayAct() ? placesOf(cluster, found, frame, reload) : null,
  ];
}

function blockedOf(rows) {
  if (!rows.length) return [h("h2", {}, "Blocked work"), h("p", {}, "Nothing is blocked.")];
  return [h("h2", {}, "Blocked work"), table("What is blocked, and by what", [
    ["Blocked", (one) => one.what], ["Waits for", (one) => withCode(one.waits_for)], ["Remedy", (one) => withCode(one.remedy)],
  ], rows)];
}

function migrationOf(one) {
  const isCopying = one.nodes > 0;
  const state = one.is_interrupted ? badge("interrupted", "bad") : badge("running", "warn");
  return h("section", { id: "migration" }, h("h2", {}, "Migration of the metadata"), h("div", { class: "card" },
    h("p", {}, h("strong", {}, `${one.source} to ${one.target}`), " ", state),
    isCopying ? h("progress", { max: one.nodes, value: Math.min(one.nodes, one.changes), "aria-label": "Nodes of this pass" }) : null,
    h("p", { class: "note" }, `${one.step}${isCopying ? `: ${count(one.changes)} changes in this pass, ${count(one.nodes)} nodes in the source` : ""}; began ${timeOf(one.began_ms)} UTC. Clients do not notice the passes; the switch at the end lasts well under a second.`)));
}

const timeOf = (atMs) => new Date(atMs).toISOString().slice(0, 19).replace("T", " ");

// A bookie that is down is not drained by itself: this is what a drain of it would do.
function downOf(found, frame, reload) {
  const others = found.down[0].others_down;
  return [h("ul", { class: "cards" }, found.down.map((one) => h("li", { class: "card", "data-down": one.target },
    h("p", {}, h("strong", {}, "bookie ", bookieName(one.target)), " ", stateBadge("down")),
    h("p", {}, one.is_done ? "No ledger has a copy on it."
      : `${plural(one.ledgers, "ledger")} ${one.ledgers === 1 ? "has" : "have"} a copy on it (${plural(one.entries, "entry", "entries")}${one.bytes ? `, ${bytes(one.bytes)}` : ""})${one.being_written ? `; ${count(one.being_written)} of them being written` : ""}.`),
    one.is_done ? null : h("p", {}, one.obstacles.length
      ? [stateBadge("blocked"), ` If it does not return, some copies have no legal place: ${one.obstacles.join("; ")}.`]
      : "If it does not return, repair restores these copies on other bookies."),
    frame.mayAct() ? h("div", { class: "bar" }, offer("drain", `bookie:${one.target}`, "Declare offline…", reload)) : null))),
  others ? h("p", { class: "note" }, `${plural(others, "more bookie")} down.`) : null];
}

function drainsOf(found, frame, reload) {
  if (!found.drains.length) return h("p", {}, "No bookie or region is being drained or is offline.");
  return h("ul", { class: "cards" }, found.drains.map((one) => {
    const done = one.entries_before ? Math.max(0, 1 - one.entries / one.entries_before) : one.is_done ? 1 : 0;
    const isRegion = one.target.startsWith("region:");
    const target = isRegion ? one.target : `bookie:${one.target}`;
    return h("li", { class: "card", "data-drain": one.target },
      h("p", {}, h("strong", {}, isRegion ? one.target.replace(":", " ") : `bookie ${one.target}`), " ", one.is_done ? badge("empty", "good") : badge(one.waiting.length && !one.eta_ms ? "waiting" : "moving", "warn")),
      h("progress", { max: 1, value: done, "aria-label": `Progress of ${one.target}` }),
      h("p", { class: "note" }, one.is_done ? "No data is left on it." : `${plural(one.ledgers, "ledger")} and ${bytes(one.bytes)} are left; ${one.eta_ms ? `about ${ms(one.eta_ms)} to go` : "the remaining time cannot be estimated yet"}${one.being_written ? `; ${plural(one.being_written, "ledger")} being written` : ""}.`),
      one.waiting.length ? table("Ledgers that are waiting", [
        ["Ledger", (row) => row.ledger], ["Stream", (row) => row.stream ?? UNKNOWN],
        ["Waits for", (row) => withCode(row.reason)],
        ...(frame.mayAct() ? [["", (row) => (row.is_open && row.stream ? offer("roll", `stream:${row.stream}`, "Roll…", reload) : "")]] : []),
      ], one.waiting.slice(0, 5)) : null,
      frame.mayAct() ? h("div", { class: "bar" }, offer("undrain", target, "Undrain…", reload)) : null);
  }));
}

function repairOf(one) {
  const title = one.store === "global" ? "Ledgers that need repair" : `Ledgers that need repair, store of ${one.store}`;
  return h("div", {},
    one.obstacle && one.waiting ? h("p", {}, stateBadge("warning"), " ", withCode(one.obstacle)) : null,
    one.ledgers.length ? table(title, [
      ["Ledger", (row) => row.ledger], ["Why", (row) => row.why],
      ["Since", (row) => timeOf(row.since_ms)],
      ["State", (row) => (row.hopeless ? stateBadge("lost") : row.stuck ? badge("stuck", "warn") : badge("queued", "plain"))],
      ["Waits for", (row) => withCode(row.stuck ?? "a repair worker")],
    ], one.ledgers) : h("p", {}, "No ledger needs repair."));
}

const rebalanceOf = (one) => h("section", {}, h("h2", {}, "Rebalancing"),
  h("progress", { max: 1, value: one.moved_bytes + one.left_bytes ? one.moved_bytes / (one.moved_bytes + one.left_bytes) : 1, "aria-label": "Progress of rebalancing" }),
  h("p", {}, `${one.status}: ${bytes(one.moved_bytes)} moved, ${bytes(one.left_bytes)} left.`),
  one.obstacle ? h("p", {}, stateBadge("warning"), " ", one.obstacle) : null);

const archivingOf = (rows) => table("Archiving", [
  ["Archiver", (one) => one.server], ["Region", (one) => one.region || UNKNOWN],
  ["Archived", (one) => count(one.archived), true], ["Waiting", (one) => count(one.waiting), true],
  ["Behind", (one) => ms(one.behind_ms), true], ["Failures", (one) => count(one.failures), true],
  ["Obstacle", (one) => one.obstacle ?? ""],
], rows);

function placesOf(cluster, found, frame, reload) {
  const drained = new Set(found.drains.map((one) => one.target));
  const places = [
    ...Object.keys(cluster.regions).map((name) => [`region:${name}`, `Region ${name}`, cluster.regions[name].state, drained.has(`region:${name}`)]),
    ...Object.values(cluster.servers).filter((one) => one.kind === "bookie").map((one) => [`bookie:${one.server}`, ["Bookie ", bookieName(one.server)], one.mode, drained.has(one.server)]),
  ];
  return h("section", {}, h("h2", {}, "Actions"),
    h("p", { class: "note" }, "Each action says what will happen before it is done, and is recorded in the audit log."),
    table("Regions and bookies", [
      ["Place", (one) => one[1]], ["State", (one) => stateBadge(one[2])],
      ["Action", (one) => (one[3] ? offer("undrain", one[0], "Undrain…", reload) : offer("drain", one[0], "Drain…", reload)), true],
    ], places, (one) => one[0]));
}
