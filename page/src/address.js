// The address: what the reader chose, so that a finding can be linked and the browser's back button undoes a choice.
// report.html#finding=2, #view=flow, #finding=1&select=n12; theme=dark is read, too.

const CHOICES = ["finding", "view", "pass", "selected", "row"];

export class Address {
  constructor(data, store, actions, views) {
    Object.assign(this, { data, store, actions, views });
    this.quiet = false; // a change is being read, or will be written
    store.on(CHOICES, () => {
      if (this.quiet) return;
      this.quiet = true;
      queueMicrotask(() => this.write()); // one entry of the history for one action
    });
    window.addEventListener("hashchange", () => location.hash.slice(1) !== this.text() && this.read());
  }

  text() {
    const { findings, passes } = this.data;
    const { finding, view, pass, selected, row, theme } = this.store.state;
    const own = passes[pass]?.findings[finding];
    const chosen = {
      finding: finding === null ? findings.length > 0 && "none" : finding + 1,
      view: view !== this.views[0] && view,
      pass: pass !== passes.length - 1 && passes[pass] && pass + 1,
      select: row === null && selected !== own && selected?.[0],
      row,
      theme: theme !== this.store.systemTheme && theme,
    };
    const given = Object.entries(chosen).filter(([, value]) => value || value === 0);
    return new URLSearchParams(given).toString();
  }

  write() {
    this.quiet = false;
    if (location.hash.slice(1) !== this.text()) location.hash = this.text();
  }

  /** Shows what the address names; the first finding if it names none. */
  read() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const { findings, passes, flow } = this.data;
    const nth = (name, list) => (list[wanted.get(name) - 1] ? wanted.get(name) - 1 : null);
    const first = findings.length && wanted.get("finding") !== "none" ? 0 : null;
    const id = () => this.actions.known(wanted.get("select"));
    const row = flow.rows.find((one) => String(one.id) === wanted.get("row"));
    this.quiet = true;
    if (/^(light|dark)$/.test(wanted.get("theme"))) this.store.set({ theme: wanted.get("theme") });
    this.store.set({ pass: nth("pass", passes) ?? Math.max(0, passes.length - 1) });
    this.actions.showFinding(nth("finding", findings) ?? first);
    if (row) this.actions.showParameter(row);
    else if (id() !== null) this.actions.select([id()]);
    this.store.set({ view: this.views.find((name) => name === wanted.get("view")) ?? this.views[0] });
    this.quiet = false;
  }
}
