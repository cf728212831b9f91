// The theme button: system, light, dark. The choice is a cookie that the server reads into
// <html data-theme>, so that no page flashes and none needs this file to be in the right colours.
(() => {
  "use strict";
  const order = ["system", "light", "dark"];
  const root = document.documentElement;

  const chosen = () => (order.includes(root.dataset.theme) ? root.dataset.theme : "system");

  const show = (button) => {
    button.querySelectorAll("[data-for-theme]").forEach((part) => {
      part.hidden = part.dataset.forTheme !== chosen();
    });
  };

  const choose = (theme) => {
    if (theme === "system") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = theme;
    }
    const year = 31536000;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `theme=${theme}; Path=/; Max-Age=${year}; SameSite=Lax${secure}`;
  };

  const button = document.querySelector("[data-theme-button]");
  if (button) {
    button.hidden = false;
    show(button);
    button.addEventListener("click", () => {
      choose(order[(order.indexOf(chosen()) + 1) % order.length]);
      show(button);
    });
  }
})();
