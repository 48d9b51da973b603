// What a page shows, told to the page around it (test_page_browser.py, which adds this to the pages that it looks at).

{
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((element) => element.innerText.trim());
  const box = (selector) => document.querySelector(selector)?.getBoundingClientRect();
  const inside = (one, other) => Boolean(one && other && one.top >= other.top && one.bottom <= other.bottom);
  const middle = ({ left, top, width, height }) => [left + width / 2, top + height / 2];

  function facts() {
    const own = document.querySelector(".node.selected");
    const [graph, face] = [box("svg.graph"), own?.querySelector(".face").getBoundingClientRect()];
    const screen = new DOMRect(0, 0, innerWidth, innerHeight);
    const map = box(".minimap");
    return {
      heads: texts(".findings h2"),
      chosen: texts("article.finding.chosen .subject"),
      excerpt: texts("article.finding.chosen .excerpt"),
      in_view: [".excerpt", ".evidence li:last-child", ".cure"].map((part) => inside(box(`.chosen ${part}`), screen)),
      line: texts(".source-line.chosen .line-number"),
      line_in_view: inside(box(".source-line.chosen"), box(".source-lines")),
      selected: own?.getAttribute("aria-label") ?? "",
      off_centre: face ? Math.hypot(...middle(face).map((at, axis) => at - middle(graph)[axis])) : null,
      smallest_text: Math.min(
        ...all("svg.graph :is(.nodes, .boxes) text")
          .filter((text) => text.textContent)
          .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
      ),
      map_on_graph: Boolean(map?.width && map.left < graph.right),
      beyond: all("body *:not(svg *, script, style)")
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 0.5)
        .map((element) => element.className || element.tagName),
      tabs: texts("[role=tab] i").map(Number),
      hook_rows: all(".hook-calls tbody tr").map((row) => row.innerText.replaceAll(/\s+/g, " ").trim()),
    };
  }

  window.addEventListener("load", () => {
    const found = facts();
    all(".finding-head")[1]?.click();
    setTimeout(() => parent.postMessage(JSON.stringify({ ...found, address: location.hash }), "*"));
  });
}
