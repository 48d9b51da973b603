// The search box: modules, parameters, operations and variables by name, lines by number.

import { h, replace } from "./dom.js";
import { shape } from "./format.js";

const MOST = 14;

export class Search {
  constructor(data, store, actions, graph) {
    this.data = data;
    this.actions = actions;
    this.graph = graph;
    this.found = [];
    this.at = 0;
    this.input = h("input", {
      type: "search",
      placeholder: "Search module, parameter, op, line…",
      "aria-label": "Search",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "search-results",
      autocomplete: "off",
      oninput: () => this.look(),
      onkeydown: (event) => this.key(event),
      onfocus: () => this.look(),
      onblur: () => setTimeout(() => this.close(), 150),
    });
    this.list = h("ul", { class: "results", id: "search-results", role: "listbox", hidden: true });
    this.element = h("div", { class: "search" }, this.input, h("kbd", {}, "/"), this.list);
  }

  look() {
    const text = this.input.value.trim().toLowerCase();
    this.found = text ? this.find(text) : [];
    this.at = 0;
    this.show();
  }

  find(text) {
    const model = this.graph.model?.model;
    const found = [];
    const add = (rank, kind, name, more, go) => found.push({ rank: rank(name), kind, name, more, go });
    const match = (name) => {
      const low = name.toLowerCase();
      return low === text ? 0 : low.startsWith(text) ? 1 : low.endsWith(text) ? 2 : low.includes(text) ? 3 : 9;
    };
    if (model) {
      for (const group of model.groups.slice(1)) {
        const name = [
          ...model
            .around(group.id)
            .slice(1)
            .map((id) => model.groups[id]),
          group,
        ]
          .filter((one) => one.kind === "module")
          .map((one) => one.label)
          .join(".");
        const rank = (one) =>
          Math.min(match(one), match(group.label), match(group.type ?? ""), match(group.name ?? ""));
        add(rank, "module", name || group.label, group.type ?? group.kind, () => this.actions.select([group.id]));
      }
      for (const node of model.nodes.values()) {
        const leaf = node.kind.endsWith("leaf");
        const rank = (one) =>
          Math.min(match(one), leaf ? 9 : match(node.op ?? ""), leaf ? 9 : match(node.tensor ?? "")) + (leaf ? 0 : 0.5);
        add(
          rank,
          leaf ? "leaf" : "op",
          leaf ? node.tensor : node.name,
          leaf
            ? shape(node.shape)
            : [node.tensor ?? node.op, node.line && `line ${node.line}`].filter(Boolean).join(" · "),
          () => this.actions.select([node.id]),
        );
      }
    }
    if (/^(line )?\d+$/.test(text)) {
      const line = Number(text.replace("line ", ""));
      add(
        () => -1,
        "line",
        `line ${line}`,
        this.data.files[0]?.lines?.[line - 1]?.trim() ?? "",
        () => this.actions.showLine(0, line, true),
      );
    }
    this.data.findings.forEach((finding, place) => {
      const rank = () => Math.min(match(finding.code), match(finding.subject));
      add(rank, "finding", finding.code, finding.subject, () => this.actions.showFinding(place));
    });
    return found
      .filter((one) => one.rank < 9)
      .sort((a, b) => a.rank - b.rank || a.name.length - b.name.length)
      .slice(0, MOST);
  }

  show() {
    this.list.hidden = !this.found.length && !this.input.value.trim();
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    replace(
      this.list,
      this.found.length
        ? this.found.map((one, place) =>
            h(
              "li",
              {
                role: "option",
                "aria-selected": String(place === this.at),
                class: place === this.at ? "at" : "",
                onmousedown: (event) => {
                  event.preventDefault();
                  this.take(place);
                },
              },
              h("span", { class: "kind" }, one.kind),
              h("span", { class: "mono" }, one.name),
              h("span", { class: "more" }, one.more),
            ),
          )
        : h("li", { class: "none" }, "nothing of that name in this pass"),
    );
  }

  key(event) {
    if (event.key === "ArrowDown") this.at = Math.min(this.found.length - 1, this.at + 1);
    else if (event.key === "ArrowUp") this.at = Math.max(0, this.at - 1);
    else if (event.key === "Enter") return this.take(this.at);
    else if (event.key === "Escape") return this.input.blur();
    else return;
    event.preventDefault();
    this.show();
  }

  take(place) {
    const one = this.found[place];
    if (!one) return;
    this.close();
    this.input.blur();
    one.go();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }
}
