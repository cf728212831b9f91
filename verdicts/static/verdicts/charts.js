// Draws the figures that the server made: for each <div data-chart="ID"> the JSON in <script id="ID">.
// The table beside a chart says the same; without this file, or without Plotly, nothing is lost.
//
// A colour in a figure may be the name of one of the console's own, as "var(--red)": it follows the theme.
// A mark whose customdata is a path ("/…") or a place on the page ("#…") leads there when it is clicked.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = 640;
  const paper = 640; // what fits between the margins of A4 and of Letter
  let printing = false;

  // What a custom property is worth here and now: light-dark() is settled only on an element.
  let probe = null;
  let known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      probe.style.color = "";
      probe.style.color = text;
      known.set(text, getComputedStyle(probe).color);
    }
    return known.get(text);
  };
  const settled = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(settled);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, settled(part)]));
    }
    return value;
  };

  const merged = (under, over) => {
    const both = { ...under };
    for (const [name, value] of Object.entries(over || {})) {
      const plain = value && typeof value === "object" && !Array.isArray(value);
      both[name] = plain ? merged(under[name] || {}, value) : value;
    }
    return both;
  };

  // A figure's lengths are for text of 16 px; where the page's is larger, so are they.
  const lengths = new Set(["size", "height", "width", "yshift", "t", "r", "b", "l"]);
  const enlarged = (value, by) => {
    if (by === 1) return value;
    if (Array.isArray(value)) return value.map((part) => enlarged(part, by));
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [
      name, typeof part === "number" && lengths.has(name) ? part * by : enlarged(part, by),
    ]));
  };

  const axis = {
    gridcolor: "var(--line)",
    linecolor: "var(--line-strong)",
    zerolinecolor: "var(--line)",
    tickcolor: "var(--line-strong)",
    automargin: true,
  };
  const manners = () => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    colorway: ["var(--blue)", "var(--amber)", "var(--violet)", "var(--teal)", "var(--red)", "var(--green)"],
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: "var(--ink)" },
    hoverlabel: {
      bgcolor: "var(--sheet)",
      bordercolor: "var(--line-strong)",
      font: { family: getComputedStyle(document.body).fontFamily, color: "var(--ink)", size: 13 },
      align: "left",
      namelength: -1,
    },
    margin: { t: 36, r: 16, b: 40, l: 16 },
    hovermode: "closest",
    dragmode: "pan",
    transition: { duration: 0 },
    uirevision: "given", // what was zoomed stays so when the theme or the width changes
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--ink-2)", activecolor: "var(--ink)" },
  });

  // Zoom and pan also by button: not everyone can drag. Nothing here leaves the page.
  const config = {
    responsive: false,
    displaylogo: false,
    displayModeBar: true,
    scrollZoom: false,
    doubleClick: "reset",
    showTips: false,
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "zoom2d", "resetScale2d"]],
  };

  const charts = new Map(); // box -> figure as it was given

  const layoutOf = (figure) =>
    settled(merged({ ...manners(), template: { layout: { xaxis: axis, yaxis: axis } } }, figure.layout));

  const follow = (event) => {
    const to = event.points[0].customdata;
    if (typeof to === "string" && /^(#|\/(?![/\\]))/.test(to)) location.assign(to);
  };

  const draw = (box) => {
    const width = printing ? paper : box.clientWidth;
    const figure = charts.get(box);
    if (!width) return; // in a closed part of the page: drawn when it opens
    const by = printing ? 1 : parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    const layout = enlarged(layoutOf(figure), by);
    layout.width = width;
    const options = { ...config, displayModeBar: width >= narrow, ...figure.config };
    const fresh = !box.on;
    window.Plotly.react(box, enlarged(settled(figure.data || []), by), layout, options).then(() => {
      for (const picture of box.querySelectorAll("svg.main-svg")) picture.setAttribute("aria-hidden", "true");
      for (const button of box.querySelectorAll(".modebar-btn[data-title]")) {
        button.setAttribute("aria-label", button.dataset.title);
      }
    });
    if (fresh) box.on("plotly_click", follow);
  };

  // Buttons that show another stretch: each holds what it changes of the layout, as {"xaxis.range": [...]}.
  const offer = (box) => {
    const group = document.querySelector(`[data-chart-views="${CSS.escape(box.dataset.chart)}"]`);
    if (!group) return;
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("[data-relayout]");
      if (!button) return;
      const { layout } = charts.get(box);
      for (const [path, value] of Object.entries(JSON.parse(button.dataset.relayout))) {
        const names = path.split(".");
        const last = names.pop();
        names.reduce((part, name) => (part[name] = part[name] || {}), layout)[last] = value;
      }
      layout.uirevision = button.textContent;
      draw(box);
      for (const other of group.querySelectorAll("[data-relayout]")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
    });
  };

  const redraw = () => {
    known = new Map();
    for (const box of charts.keys()) {
      if (box.isConnected) draw(box);
      else charts.delete(box);
    }
  };

  const sized = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (!printing && charts.has(target) && target.clientWidth !== (target._fullLayout || {}).width) draw(target);
    }
  });

  const start = (box) => {
    const source = document.getElementById(box.dataset.chart);
    if (!source || charts.has(box)) return;
    charts.set(box, JSON.parse(source.textContent));
    if (!box.hasAttribute("role")) box.setAttribute("role", "group");
    if (!box.hasAttribute("aria-label") && !box.hasAttribute("aria-labelledby")) {
      const title = charts.get(box).layout && charts.get(box).layout.title;
      box.setAttribute("aria-label", `Chart: ${(title && title.text) || "the table beside it has the same"}`);
    }
    box.hidden = false;
    const frame = box.closest("[data-chart-frame]"); // with what makes no sense without its chart
    if (frame) frame.hidden = false;
    draw(box);
    offer(box);
    sized.observe(box);
  };

  const startAll = (root) => {
    for (const box of root.querySelectorAll("[data-chart]")) start(box);
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (!window.Plotly) return;
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
    startAll(document);
    document.addEventListener("htmx:load", (event) => startAll(event.target.parentElement || document));
    const root = document.documentElement;
    dark.addEventListener("change", redraw);
    new MutationObserver(redraw).observe(root, { attributeFilter: ["data-theme"] });

    // Paper is white and narrow. The old choice comes back when the print is made.
    let chosen;
    window.addEventListener("beforeprint", () => {
      printing = true;
      chosen = root.dataset.theme;
      root.dataset.theme = "light";
      redraw();
    });
    window.addEventListener("afterprint", () => {
      printing = false;
      if (chosen) root.dataset.theme = chosen;
      else delete root.dataset.theme;
      redraw();
    });
  });
})();
