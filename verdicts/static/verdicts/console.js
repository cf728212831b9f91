// Small manners on top of htmx. Every page works without this file.
(() => {
  "use strict";

  // An empty filter is no filter: keep it out of the request and so out of the address.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb !== "get" || !event.target.closest("[data-drop-empty]")) return;
    for (const [name, value] of Array.from(event.detail.formData.entries())) {
      if (value === "") event.detail.formData.delete(name);
    }
  });

  // Nobody looks at a hidden tab: let its polls pass by. They go on when it is shown again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.closest("[data-poll]")) event.preventDefault();
  });

  // A failed partial update must not look like a success.
  const say = (text) => {
    const place = document.getElementById("page-message");
    if (place) place.textContent = text;
  };
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401 || status === 403) {
      say("You are no longer allowed to see this, or the session has ended. Reload the page to log in again.");
    } else {
      say(`The server answered ${status}; what is shown is from before. Reload the page to try again.`);
    }
  });
  document.addEventListener("htmx:sendError", () => {
    say("The server could not be reached; what is shown is from before.");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) say("");
  });

  // A list of check boxes says what is chosen, and closes when one looks elsewhere.
  const picks = Array.from(document.querySelectorAll("[data-pick]"));
  const sayChosen = (pick) => {
    const chosen = Array.from(pick.querySelectorAll("input:checked"), (box) => box.closest("label").textContent.trim());
    pick.querySelector("[data-pick-now]").textContent = chosen.join(", ") || "any";
  };
  for (const pick of picks) {
    sayChosen(pick);
    pick.addEventListener("change", () => sayChosen(pick));
    pick.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && pick.open) {
        pick.open = false;
        pick.querySelector("summary").focus();
      }
    });
    pick.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !pick.contains(event.relatedTarget)) pick.open = false;
    });
  }
  document.addEventListener("click", (event) => {
    for (const pick of picks) if (!pick.contains(event.target)) pick.open = false;
  });

  // Only what the label needs: "what it was" belongs to "wrong".
  const review = document.querySelector("[data-review-form]");
  if (review) {
    const detail = review.querySelector("[data-when-wrong]");
    const update = () => {
      const label = review.querySelector("input[name=label]:checked");
      if (detail) detail.hidden = !(label && label.value === "wrong");
    };
    review.addEventListener("change", update);
    update();
  }

  // A link to a line inside a closed <details> opens it.
  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  if (location.hash) reveal();
})();
