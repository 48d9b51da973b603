// What the reader has chosen. Views listen and draw what changed.

export class Store {
  constructor(initial) {
    this.state = initial;
    this.listeners = [];
  }

  get(name) {
    return this.state[name];
  }

  /** Takes over new values and tells those who listen to one of the names that changed. */
  set(changes) {
    const changed = new Set(Object.keys(changes).filter((name) => this.state[name] !== changes[name]));
    Object.assign(this.state, changes);
    if (!changed.size) return;
    for (const [names, listener] of this.listeners) {
      if (names.some((name) => changed.has(name))) listener(this.state, changed);
    }
  }

  on(names, listener) {
    this.listeners.push([names, listener]);
  }
}
