// The program's source, with the findings pinned to their lines and a mark at every line that made nodes.

import { h, replace } from "./dom.js";
import { plural } from "./format.js";
import { coloured } from "./python.js";

export class SourceView {
  constructor(data, store, actions) {
    this.data = data;
    this.store = store;
    this.actions = actions;
    this.title = h("div", { class: "panel-head" });
    this.code = h("div", {
      class: "source-lines",
      tabindex: 0,
      role: "group",
      "aria-label": "Source; arrow keys go to the next line with a finding or with nodes of the graph",
      onkeydown: (event) => this.key(event),
    });
    this.element = h("section", { class: "source", "aria-label": "Source" }, this.title, this.code);
    this.shown = null;
    store.on(["line", "pass", "finding"], (state, changed) => this.show(changed.has("pass")));
    this.show(true);
  }

  show(anew) {
    const { files } = this.data;
    const line = this.store.get("line");
    const file = line?.file ?? this.shown ?? 0;
    if (!files[file]) {
      replace(this.title, h("span", {}, "No source"));
      return;
    }
    if (anew || file !== this.shown) this.draw(file);
    this.mark(line);
  }

  draw(file) {
    const { files, findings, passes } = this.data;
    this.shown = file;
    const source = files[file];
    const chooser =
      files.length > 1
        ? h(
            "select",
            {
              "aria-label": "File",
              onchange: (event) => {
                this.draw(Number(event.target.value));
              },
            },
            files.map((one, place) => h("option", { value: place, selected: place === file }, one.name)),
          )
        : h("span", { class: "file-name" }, source.name);
    replace(this.title, chooser, h("span", { class: "path", title: source.path }, h("bdi", {}, source.path)));
    if (!source.lines) {
      replace(
        this.code,
        h("p", { class: "empty" }, "This file is not in the page: it could not be read, or is too long."),
      );
      this.rows = [];
      return;
    }
    const pins = new Map();
    findings.forEach((finding, place) => {
      if (finding.file === file && finding.line !== null)
        pins.set(finding.line, [...(pins.get(finding.line) ?? []), place]);
    });
    const made = new Map();
    for (const node of passes[this.store.get("pass")]?.nodes ?? []) {
      if (node.file === file && node.kind !== "leaf") made.set(node.line, (made.get(node.line) ?? 0) + 1);
    }
    const texts = coloured(source.lines);
    this.rows = source.lines.map((_, place) =>
      this.row(file, place + 1, texts[place], pins.get(place + 1), made.get(place + 1)),
    );
    replace(this.code, this.rows);
  }

  row(file, line, text, pins, made) {
    const { findings } = this.data;
    const isNote = (place) => findings[place].kind === "note";
    const indent = this.data.files[file].lines[line - 1].search(/\S|$/) + 4; // of what is wrapped
    const pin = pins?.map((place) =>
      h(
        "button",
        {
          class: `pin${isNote(place) ? " note" : ""}`,
          type: "button",
          title: findings[place].message,
          onclick: (event) => {
            event.stopPropagation();
            this.actions.showFinding(place);
          },
        },
        `⚑${place + 1}`,
      ),
    );
    const title = made ? `${plural(made, "node")} of the graph come from this line: click to see them` : undefined;
    return h(
      "div",
      {
        class: `source-line${made ? " made" : ""}${pins ? " pinned" : ""}${pins?.every(isNote) ? " note" : ""}`,
        style: `--indent:${indent}ch`,
        title,
        onclick: () => this.actions.showLine(file, line, true),
      },
      h("span", { class: "pins" }, pin),
      h("span", { class: "line-number" }, line),
      h("code", {}, text.length ? text : " "),
    );
  }

  /** Up and down to the next line that made something or has a finding. */
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target !== this.code) return;
    event.preventDefault();
    const line = this.store.get("line");
    let place = line?.file === this.shown ? line.line - 1 + step : 0;
    while (this.rows[place] && !this.rows[place].matches(".made, .pinned")) place += step;
    if (this.rows[place]) this.actions.showLine(this.shown, place + 1, true);
  }

  mark(line) {
    const finding = this.data.findings[this.store.get("finding")];
    const also = finding && finding.file === this.shown ? new Set(finding.also_lines) : new Set();
    this.rows?.forEach((row, place) => {
      row.classList.toggle("chosen", line?.file === this.shown && line.line === place + 1);
      row.classList.toggle("also", also.has(place + 1));
    });
    if (line?.file !== this.shown || !this.rows?.[line.line - 1]) return;
    const row = this.rows[line.line - 1];
    const { scrollTop, clientHeight } = this.code;
    const top = row.offsetTop - this.code.offsetTop,
      end = top + row.offsetHeight;
    if (top < scrollTop + 20 || end > scrollTop + clientHeight - 20)
      this.code.scrollTop = (top + end - clientHeight) / 2;
  }
}
