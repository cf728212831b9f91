// Drafts of reviews and comments, and folds that open for the printer. The page works without this file.
(() => {
  "use strict";

  // A draft stays in this tab until it is sent, whatever happens to the page: another form sent, a reload, a login.
  const fields = "input[name]:not([type=hidden]), select[name], textarea[name]";
  const read = (form) => {
    const said = {};
    for (const field of form.querySelectorAll(fields)) {
      if (field.type !== "radio" || field.checked) said[field.name] = field.value;
    }
    return JSON.stringify(said);
  };
  const write = (form, said) => {
    for (const field of form.querySelectorAll(fields)) {
      if (!(field.name in said)) continue;
      if (field.type === "radio") field.checked = field.value === said[field.name];
      else field.value = said[field.name];
    }
    form.dispatchEvent(new Event("change", { bubbles: true }));
  };
  for (const form of document.querySelectorAll("[data-draft]")) {
    const key = `draft:${form.dataset.draft}:${form.dataset.by}:${location.pathname}`;
    const given = read(form);
    try {
      // It goes when the server says that it has it: a failed answer must not take it along.
      const sent = sessionStorage.getItem(`${key}:sent`);
      const comment = form.dataset.draft === "comment";
      const stored = comment ? location.hash.startsWith("#comment-") : document.querySelector("[data-saved]");
      sessionStorage.removeItem(`${key}:sent`);
      if (sent && stored) sessionStorage.removeItem(key);
      const held = sessionStorage.getItem(key);
      // What the server gives back is newer than the draft: an error, or a session that had ended.
      if (held && !form.querySelector("[aria-invalid], [role=alert]") && !document.querySelector("[data-typed]")) {
        write(form, JSON.parse(held));
      }
      form.addEventListener("input", () => {
        if (read(form) === given) sessionStorage.removeItem(key);
        else sessionStorage.setItem(key, read(form));
      });
      form.addEventListener("submit", () => sessionStorage.setItem(`${key}:sent`, "yes"));
    } catch {
      // The browser keeps nothing for this site: the forms work without drafts.
    }
  }

  // What is folded on the screen is open on paper.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    for (const fold of opened) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    opened = [];
  });
})();
