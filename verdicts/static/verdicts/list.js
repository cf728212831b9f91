// The verdict list beyond filtering: keys, choosing rows, coming back to where one was, and rows that change.
// The list reads, filters, pages and applies without this file.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("scripted");
  const every = 10000;

  const results = () => document.getElementById("results");
  const rows = () => Array.from(document.querySelectorAll(".list-table tbody tr[data-row]"));
  const boxes = () => Array.from(document.querySelectorAll(".list-table input[name=row]"));

  // --- Choosing rows, and remembering for this address what was chosen and where one stood ----------------
  const place = () => `list:${location.pathname}${location.search}`;
  const keep = () => {
    const chosen = boxes().filter((box) => box.checked).map((box) => box.value);
    const at = document.querySelector(".list-table tr.at");
    try {
      sessionStorage.setItem(place(), JSON.stringify({ chosen, at: at ? at.dataset.row : "" }));
    } catch {
      // A browser that keeps nothing: coming back shows the list without the choice.
    }
  };
  const sayChosen = () => {
    const number = boxes().filter((box) => box.checked).length;
    const said = document.querySelector("[data-chosen]");
    if (said) said.textContent = number ? `${number} chosen` : "Choose all rows";
    const all = document.querySelector("[data-choose-all]");
    if (all) {
      all.checked = number > 0 && number === boxes().length;
      all.indeterminate = number > 0 && number < boxes().length;
    }
  };
  const sayAction = () => {
    const action = document.getElementById("bulk-action");
    if (!action) return;
    for (const part of document.querySelectorAll("[data-for-action]")) {
      part.classList.toggle("wanted", part.dataset.forAction.split(" ").includes(action.value));
    }
  };
  const recall = () => {
    let kept = null;
    try {
      kept = JSON.parse(sessionStorage.getItem(place()) || "null");
    } catch {
      kept = null;
    }
    if (kept) {
      for (const box of boxes()) box.checked = kept.chosen.includes(box.value);
      const row = kept.at && document.getElementById(`row-${kept.at}`);
      if (row) row.classList.add("at");
    }
    sayChosen();
    sayAction();
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-choose-all]")) {
      for (const box of boxes()) box.checked = event.target.checked;
    } else if (event.target.id === "bulk-action") {
      sayAction();
      return;
    } else if (!event.target.matches(".list-table input[name=row]")) {
      return;
    }
    sayChosen();
    keep();
  });

  // --- Keys: only where they are switched on, and never while somebody types -------------------------------
  const dialog = document.getElementById("keys");
  const help = document.querySelector("[data-keys-help]");
  if (dialog && help) {
    help.hidden = false;
    help.addEventListener("click", () => dialog.showModal());
    const form = dialog.querySelector("[data-keys-form]");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const answer = await fetch(form.action, {
        method: "POST", body: new FormData(form), headers: { Accept: "application/json" },
      });
      if (!answer.ok) return;
      const on = (await answer.json()).shortcuts;
      dialog.dataset.keys = on ? "on" : "off";
      form.elements.on.value = on ? "false" : "true";
      form.querySelector("[data-keys-turn]").textContent = on ? "off" : "on";
    });
  }
  const stand = (row) => {
    for (const other of rows()) other.classList.toggle("at", other === row);
    row.querySelector(".row-headline").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    keep();
  };
  const current = () => {
    const focused = document.activeElement && document.activeElement.closest("tr[data-row]");
    return focused || document.querySelector(".list-table tr.at");
  };
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const now = all.indexOf(current());
    stand(all[now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + step, 0), all.length - 1)]);
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!dialog || dialog.open || dialog.dataset.keys !== "on") return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const row = current();
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o" && row) row.querySelector(".row-headline").click();
    else if (event.key === "x" && row && row.querySelector("input[name=row]")) row.querySelector("input[name=row]").click();
    else if (event.key === "/") document.getElementById("text").focus();
    else if (event.key === "?") dialog.showModal();
    else return;
    event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest(".list-table tr[data-row]");
    if (row) for (const other of rows()) other.classList.toggle("at", other === row);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".list-table .row-headline");
    if (!link) return;
    for (const other of rows()) other.classList.toggle("at", other === link.closest("tr"));
    keep();
  });

  // --- Facets: what is open stays open when the list is filtered anew --------------------------------------
  let open = new Map();
  document.addEventListener("htmx:beforeSwap", () => {
    open = new Map(Array.from(document.querySelectorAll("#facets details"), (fold) => [fold.id, fold.open]));
  });
  document.addEventListener("htmx:oobAfterSwap", () => {
    for (const fold of document.querySelectorAll("#facets details")) {
      if (open.has(fold.id)) fold.open = open.get(fold.id);
    }
  });
  const rail = document.querySelector("[data-rail]");
  if (rail && window.matchMedia("(max-width: 62rem)").matches) rail.open = false;
  const menu = document.querySelector("[data-menu]");
  if (menu) {
    document.addEventListener("click", (event) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }

  // --- Rows that can change are asked for again: only those in sight, and not while nobody looks -----------
  let paused = false;
  const inSight = (row) => {
    const box = row.getBoundingClientRect();
    return box.bottom > 0 && box.top < window.innerHeight;
  };
  const note = () => {
    const place = document.querySelector("[data-live-note]");
    if (!place) return;
    const live = document.querySelectorAll("tr[data-live]").length;
    place.hidden = !live;
    place.querySelector("[data-live-text]").textContent = paused
      ? "Updates are paused."
      : `${live} row${live === 1 ? "" : "s"} may still change; ${live === 1 ? "it is" : "they are"} looked at every ${every / 1000} s.`;
    place.querySelector("[data-live-pause]").textContent = paused ? "Go on" : "Pause updates";
  };
  const busy = () => {
    const selection = window.getSelection();
    const reading = selection && !selection.isCollapsed && results() && results().contains(selection.anchorNode);
    return document.hidden || paused || reading || (dialog && dialog.open) || (menu && menu.open);
  };
  const refresh = async (wanted) => {
    const body = document.querySelector("[data-rows]");
    const ids = wanted.map((row) => `attempt=${row.dataset.attempt}`).join("&");
    if (!body || !ids) return;
    let answer;
    try {
      answer = await fetch(`${body.dataset.rows}?${ids}`, { headers: { "HX-Request": "true" } });
    } catch {
      return; // The next round tries again.
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = new Map(Array.from(fresh.querySelectorAll("tr[data-row]"), (row) => [row.dataset.attempt, row]));
    for (const row of wanted) {
      const next = found.get(row.dataset.attempt);
      if (!row.isConnected || row.contains(document.activeElement)) continue;
      if (!next) {
        delete row.dataset.live; // It is gone: the list shows that when it is opened anew.
        continue;
      }
      const box = row.querySelector("input[name=row]");
      if (box && next.querySelector("input[name=row]")) next.querySelector("input[name=row]").checked = box.checked;
      next.classList.toggle("at", row.classList.contains("at"));
      row.replaceWith(document.adoptNode(next));
      window.htmx.process(next);
    }
    note();
  };
  window.setInterval(() => {
    if (busy()) return;
    const wanted = rows().filter((row) => "live" in row.dataset && inSight(row));
    if (wanted.length) refresh(wanted);
  }, every);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-live-pause]")) return;
    paused = !paused;
    note();
  });

  // --- After each swap -------------------------------------------------------------------------------------
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "bulk-outcome") {
      const outcome = event.target.querySelector("[data-outcome]");
      if (!outcome || outcome.dataset.outcome === "none") return;
      const chosen = boxes().filter((box) => box.checked);
      refresh(chosen.map((box) => box.closest("tr")));
      return;
    }
    const query = document.querySelector("[data-view-form] input[name=query]");
    if (query && results()) query.value = results().dataset.query;
    recall();
    note();
  });
  recall();
  note();
})();
