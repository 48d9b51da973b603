// What the lines of the graph mean: arrowheads, and a box that explains.

import { h, s } from "../dom.js";

const EDGE_STATES = ["ok", "zero", "nan", "none", "idle", "lost"];

export function markers() {
  return s(
    "defs",
    {},
    EDGE_STATES.map((state) =>
      s(
        "marker",
        {
          id: `arrow-${state}`,
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto",
          markerUnits: "userSpaceOnUse",
        },
        s("path", { d: "M0 0.8 L8 4 L0 7.2 z", class: `arrow ${state}` }),
      ),
    ),
  );
}

export function legend() {
  const edge = (state, text) =>
    h(
      "li",
      {},
      s(
        "svg",
        { width: 30, height: 10, "aria-hidden": "true" },
        s("path", { d: "M1 5 H29", class: `edge ${state}`, "stroke-width": 2 }),
      ),
      text,
    );
  return h(
    "details",
    { class: "legend" },
    h("summary", { title: "How to read the graph" }, "Key"),
    h(
      "div",
      {},
      h(
        "p",
        {},
        "Gradients go from the loss at the top to the leaves at the bottom. ",
        "A bar is the norm of what arrives, on a log scale; a broader line carries more.",
      ),
      h(
        "ul",
        {},
        edge("ok", "gradient"),
        edge("zero", "zero (0)"),
        edge("nan", "NaN or Inf"),
        edge("none", "none was sent"),
        edge("idle", "did not run"),
        edge("lost", "the way that is cut (✂)"),
      ),
      h("p", {}, "Click a module to open or close it, a node to see every way from the loss to it."),
      h(
        "p",
        {},
        h("kbd", {}, "↑↓←→"),
        " walk  ",
        h("kbd", {}, "Enter"),
        " open  ",
        h("kbd", {}, "0"),
        " fit  ",
        h("kbd", {}, "/"),
        " search  ",
        h("kbd", {}, "n"),
        " next finding  ",
        h("kbd", {}, "g h f"),
        " views  ",
        h("kbd", {}, "t"),
        " light or dark",
      ),
    ),
  );
}
