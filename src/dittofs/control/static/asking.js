// The dialog before every change: what will happen, why it is done, and a last look.

import { post } from "./api.js";
import { h, replace } from "./dom.js";

const dialog = document.getElementById("dialog");

export function askReason({ title, text, warning, action, path, body = {}, done }) {
  const reason = h("input", { name: "reason", required: true, minlength: 3, maxlength: 500, autocomplete: "off", placeholder: "for the audit log" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const go = h("button", { class: "danger", type: "submit" }, action);
  const form = h("form", { method: "dialog" },
    h("h2", {}, title), h("p", {}, text), h("p", { class: "why" }, warning),
    h("label", {}, "Reason", reason), problem,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      await post(path, { ...body, reason: reason.value });
      dialog.close();
      done();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      go.disabled = false;
    }
  });
  replace(dialog, form);
  dialog.showModal();
  reason.focus();
}
