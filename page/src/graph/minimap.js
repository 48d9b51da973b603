// The whole sheet, small, with the part that is on the screen; only there when the sheet does not fit.

import { s } from "../dom.js";

const [WIDE, TALL] = [84, 300]; // the dock beside the graph has room for this

export class Minimap {
  constructor(look) {
    this.window = s("rect", { class: "window" });
    this.marks = s("g");
    this.element = s(
      "svg",
      { class: "minimap", preserveAspectRatio: "none", "aria-hidden": "true", hidden: true },
      this.marks,
      this.window,
    );
    const go = (event) => {
      const { left, top, width, height } = this.element.getBoundingClientRect();
      look(((event.clientX - left) / width) * this.size.width, ((event.clientY - top) / height) * this.size.height);
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      go(event);
    });
    this.element.addEventListener("pointermove", (event) => event.buttons && go(event));
  }

  draw(drawing, size, model) {
    this.size = size;
    const wide = Math.min(WIDE, Math.max(34, (TALL * size.width) / size.height));
    for (const [name, value] of Object.entries({
      viewBox: `0 0 ${size.width} ${size.height}`,
      width: wide,
      height: Math.min(TALL, Math.max(60, (wide * size.height) / size.width)),
    })) {
      this.element.setAttribute(name, value);
    }
    this.shown = new Map();
    for (const [id, { x, y, width, height }] of drawing.places) {
      const box = typeof id === "number";
      if (box && drawing.elements.get(id).classList.contains("open")) continue;
      const flagged = box ? model.sum(id).findings.size : model.flagged.has(id);
      this.shown.set(id, s("rect", { x, y, width, height, class: flagged ? "flagged" : null }));
    }
    this.marks.replaceChildren(...this.shown.values());
  }

  mark(chosen) {
    for (const [id, rect] of this.shown ?? []) rect.classList.toggle("chosen", chosen.has(id));
  }

  follow({ x, y, k }, width, height) {
    if (!this.size) return;
    const place = { x: -x / k, y: -y / k, width: width / k, height: height / k };
    const fits =
      place.x < 1 &&
      place.y < 1 &&
      place.x + place.width > this.size.width - 1 &&
      place.y + place.height > this.size.height - 1;
    this.element.toggleAttribute("hidden", fits);
    for (const [name, value] of Object.entries(place)) this.window.setAttribute(name, value);
  }
}
