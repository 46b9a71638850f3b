// Actions: a button, and a dialog that says what will happen before anything is done.

import { get, post } from "./api.js";
import { h, show, withCode } from "./dom.js";

/** A button that offers an action; `done` is called when it was done. */
export const offer = (kind, target, words, done) =>
  h("button", { type: "button", class: "act", "data-key": `${kind} ${target}`, "data-act": `${kind} ${target}`, "aria-label": `${words.replace("…", "")} ${target.slice(target.indexOf(":") + 1)}`, onclick: () => confirmed(kind, target, done) }, words);

async function confirmed(kind, target, done) {
  const title = h("h2", { id: "action-title" }, "What will happen");
  const body = h("div", {}, h("p", {}, "Computing what will happen."));
  const status = h("p", { role: "status", id: "action-status" });
  const confirm = h("button", { type: "button", id: "confirm", class: "primary", disabled: true }, "Confirm");
  const cancel = h("button", { type: "button", id: "cancel" }, "Cancel");
  const dialog = h("dialog", { "aria-labelledby": "action-title" }, title, body, status, h("div", { class: "bar" }, confirm, cancel));
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  cancel.addEventListener("click", () => dialog.close());
  dialog.showModal();
  let plan;
  try {
    plan = await get("/api/action", { kind, target });
  } catch (error) {
    show(body, h("p", {}, `The console cannot say now what would happen: ${error.message}.`));
    return;
  }
  title.textContent = `${plan.title}?`;
  show(body,
    h("ul", {}, plan.effects.map((one) => h("li", {}, withCode(one)))),
    plan.obstacles.length ? h("div", { class: "obstacles" }, h("h3", {}, "This cannot be done"), h("ul", {}, plan.obstacles.map((one) => h("li", {}, withCode(one))))) : null);
  confirm.textContent = plan.title;
  confirm.disabled = plan.obstacles.length > 0;
  confirm.addEventListener("click", async () => {
    confirm.disabled = true;
    status.textContent = "In progress.";
    try {
      status.textContent = `Done: ${(await post("/api/action", { kind, target, basis: plan.basis })).message}.`;
      cancel.textContent = "Close";
      cancel.focus();
      done?.();
    } catch (error) {
      status.textContent = `Not done: ${error.message}.`;
      cancel.textContent = "Close";
    }
  });
}
