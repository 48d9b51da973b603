// The page of `undertow why --html`: it reads its data from the script element above it and loads nothing.

import { Address } from "./address.js";
import { DetailsView } from "./details.js";
import { h, replace } from "./dom.js";
import { FindingsView } from "./findings.js";
import { FlowView } from "./flow.js";
import { plural } from "./format.js";
import { GraphView } from "./graph/view.js";
import { HooksView } from "./hooks.js";
import { Search } from "./search.js";
import { SourceView } from "./source.js";
import { Store } from "./store.js";

const VERSION = 1;
const VIEWS = { graph: "Graph", hooks: "Hooks", flow: "Gradient flow" };

function start() {
  const data = JSON.parse(document.getElementById("undertow-data").textContent);
  if (data.version !== VERSION) {
    document.body.append(h("p", {}, `This page reads data of version ${VERSION}, not ${data.version}.`));
    return;
  }
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const store = new Store({
    view: "graph",
    pass: Math.max(0, data.passes.length - 1),
    selected: null,
    finding: null,
    line: data.program.error?.at ?? null,
    row: null,
    theme: dark.matches ? "dark" : "light",
  });
  store.systemTheme = store.get("theme");

  const actions = {};
  const graph = new GraphView(data, store);
  const hooks = new HooksView(data, store, actions);
  const flow = new FlowView(data, store, actions);
  const findings = new FindingsView(data, store, actions);
  const source = new SourceView(data, store, actions);
  const details = new DetailsView(data, store, actions, graph);
  const search = new Search(data, store, actions, graph);
  const views = { graph, hooks, flow };

  Object.assign(actions, {
    /** Nodes by their names, boxes by their numbers. */
    select(ids) {
      store.set({ view: "graph", selected: ids, row: null });
      graph.reveal(ids);
    },
    known: (id) => graph.known(id),
    /** A line of the source; with its nodes, if there are any. */
    showLine(file, line, nodes = false) {
      store.set({ line: { file, line } });
      const model = graph.model?.model;
      const made =
        nodes && model
          ? model.pass.nodes
              .filter((node) => node.file === file && node.line === line && node.kind !== "leaf")
              .map((node) => node.id)
          : [];
      if (made.length) actions.select(made);
    },
    /** A finding: its line in the source, its nodes in the graph of the pass that has them. Or none: null. */
    showFinding(place) {
      const finding = data.findings[place];
      store.set({ finding: place, row: null });
      if (finding && finding.line !== null) store.set({ line: { file: finding.file, line: finding.line } });
      const has = (pass) => data.passes[pass]?.findings[place];
      const pass = has(store.get("pass")) ? store.get("pass") : data.passes.findLastIndex((one) => one.findings[place]);
      if (pass >= 0) store.set({ pass });
      if (has(pass)) actions.select(has(pass));
      else store.set({ selected: null });
    },
    showParameter(row) {
      const leaf = graph.model?.model.pass.nodes.find((node) => node.row === row.id);
      store.set({ row: row.id, selected: leaf ? [leaf.id] : null, line: row.at ?? store.get("line") });
    },
    /** A hook call: what has the hook, and the line that registered it. */
    showHook(hook, firing) {
      const place = data.passes.findIndex((pass) => pass.id === firing.pass);
      if (place >= 0) store.set({ pass: place });
      const { nodes, groups } = graph.model?.model.pass ?? { nodes: [], groups: [] };
      const owner =
        nodes.find((node) => node.hooks?.includes(hook.id)) ?? groups.find((group) => group.hooks?.includes(hook.id));
      store.set({ selected: owner ? [owner.id] : null });
      if (hook.at) store.set({ line: hook.at });
    },
  });

  const tabs = h("div", { class: "tabs", role: "tablist" });
  const main = h(
    "main",
    {},
    tabs,
    Object.values(views).map((view) => view.element),
  );
  const theme = h("button", {
    class: "theme",
    type: "button",
    title: "Light or dark (t)",
    onclick: () => store.set({ theme: store.get("theme") === "dark" ? "light" : "dark" }),
  });
  const { program } = data;
  document.body.append(
    h(
      "header",
      {},
      h("span", { class: "mark", "aria-hidden": "true" }, "∇"),
      h("h1", {}, program.title),
      h(
        "span",
        { class: "facts" },
        [
          `on ${program.engine}`,
          plural(program.operations, "operation"),
          plural(program.passes, "backward pass", "backward passes"),
        ].join(" · "),
        h("span", { class: "made" }, ` · ${program.made}`),
      ),
      h("span", { class: "spring" }),
      search.element,
      theme,
    ),
    h("div", { class: "columns" }, findings.element, main, source.element, details.element),
  );

  const counts = {
    graph: () => graph.model?.model.nodes.size ?? 0,
    hooks: () => hooks.listed,
    flow: () => data.flow.rows.length,
  };
  const buttons = Object.entries(VIEWS).map(([name, title]) => {
    const count = h("i", {});
    const show = () => {
      const chosen = store.get("view") === name;
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
      views[name].element.hidden = !chosen;
      replace(count, counts[name]().toLocaleString("en"));
    };
    const button = h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": name,
        title: `${title} (${name[0]})`,
        onclick: () => store.set({ view: name }),
      },
      title,
      count,
    );
    Object.assign(views[name].element, { role: "tabpanel" }).setAttribute("aria-labelledby", button.id);
    return { button, show };
  });
  replace(
    tabs,
    buttons.map(({ button }) => button),
  );
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(VIEWS);
    const next = (names.indexOf(store.get("view")) + step + names.length) % names.length;
    store.set({ view: names[next] });
    buttons[next].button.focus();
  });
  const drawTabs = () => buttons.forEach(({ show }) => show());
  function drawTheme() {
    document.documentElement.dataset.theme = store.get("theme");
    replace(theme, store.get("theme") === "dark" ? "☀" : "☾");
    theme.setAttribute("aria-label", store.get("theme") === "dark" ? "Light colours" : "Dark colours");
  }
  store.listeners.unshift([["view", "pass"], drawTabs], [["theme"], drawTheme]); // before the views measure themselves
  store.on(["selected"], () => {
    const [id] = store.get("selected") ?? [];
    const node = typeof id === "string" ? graph.model?.model.nodes.get(id) : null;
    if (node?.line && store.get("finding") === null) store.set({ line: { file: node.file, line: node.line } });
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = Object.keys(VIEWS).find((name) => name[0] === event.key);
    if (view) store.set({ view });
    else if (event.key === "/") search.input.focus();
    else if (event.key === "t") theme.click();
    else if (event.key === "Escape") actions.showFinding(null);
    else if ((event.key === "n" || event.key === "p") && data.findings.length) {
      const count = data.findings.length,
        now = store.get("finding");
      actions.showFinding(event.key === "n" ? ((now ?? -1) + 1) % count : ((now ?? 0) + count - 1) % count);
    } else return;
    event.preventDefault();
  });
  const address = new Address(data, store, actions, Object.keys(VIEWS));
  drawTheme();
  drawTabs();
  graph.choose();
  address.read();
}

start();
