// The page in a real browser: pages are made by `undertow why` on the scripts beside this file, then read, clicked and
// typed into. Screenshots go to test/shots.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const shots = join(here, "shots");
const folder = mkdtempSync(join(tmpdir(), "undertow-page-"));
const python = process.env.PYTHON ?? "python3";
const executablePath =
  process.env.CHROMIUM ??
  execFileSync("sh", ["-c", "command -v chromium || command -v chromium-browser || command -v google-chrome"], {
    encoding: "utf8",
  }).trim();
const axe = readFileSync(join(here, "..", "node_modules", "axe-core", "axe.min.js"), "utf8");

function make(script, engine) {
  const name = `${script.split("/").at(-1).replace(".py", "")}_${engine}`;
  const target = join(folder, `${name}.html`);
  const code = "import sys; from undertow.cli import main; sys.exit(main(sys.argv[1:]))";
  const run = spawnSync(python, ["-c", code, "why", script, "--engine", engine, "--html", target], {
    encoding: "utf8",
    env: { ...process.env, OMP_NUM_THREADS: "1" },
  });
  assert.ok(run.status === 0 || run.status === 1, run.stderr);
  return { name, target };
}

mkdirSync(shots, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let failed = 0;

const only = new RegExp(process.env.ONLY ?? "");

/** Runs one test on one page; anything that the page complains of, or asks the network for, fails it. */
async function test(title, { name, target }, check, { theme = "light", hash = "", width = 1440, height = 900 } = {}) {
  if (!only.test(title)) return;
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
  const troubles = [];
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
  page.on("request", (request) => request.url().startsWith("file:") || troubles.push(`asks for ${request.url()}`));
  try {
    const begun = Date.now();
    await page.goto(`file://${target}#${hash}`);
    await check(page, begun);
    await page.screenshot({ path: join(shots, `${name}_${title.replaceAll(/\W+/g, "_")}_${theme}.png`) });
    assert.deepEqual(troubles, []);
    console.log(`ok    ${name}: ${title} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    await page.screenshot({ path: join(shots, `FAILED_${name}.png`) });
    console.log(`FAIL  ${name}: ${title}\n${error.stack}`);
  }
  await page.close();
}

const count = (page, selector) => page.locator(selector).count();
const chosenLine = (page) => page.locator(".source-line.chosen .line-number").innerText();

const small = make(join(here, "scripts", "two_layers.py"), "undertow");
await test("a healthy script", small, async (page) => {
  assert.equal(await page.locator(".healthy h2").innerText(), "✓ Healthy");
  assert.equal(await count(page, ".node"), 13);
  assert.equal(await count(page, ".badge.hook"), 1);
});
await test("opening and closing by mouse", small, async (page) => {
  const linear = page.locator(".box.open", { hasText: "Sequential" }).first();
  await linear.locator(".name").click();
  assert.equal(await count(page, ".node"), 4);
  await page.locator(".box.closed").click();
  assert.equal(await count(page, ".node"), 13);
  await page.getByRole("button", { name: /MeanBackward0/ }).click();
  assert.equal(await chosenLine(page), "10");
});
await test("the keyboard alone", small, async (page) => {
  await page.keyboard.press("/");
  await page.keyboard.type("net[0].weight");
  assert.equal(await page.locator(".results .more").first().innerText(), "8×4");
  await page.keyboard.press("Enter");
  assert.equal(
    await page.locator(".node.selected").getAttribute("aria-label"),
    "leaf net[0].weight, line 5, gradient arrived, norm 2.34",
  );
  assert.ok((await count(page, ".edges .on-way")) >= 6); // every way from the loss
  await page.locator("svg.graph").focus();
  await page.keyboard.press("ArrowUp");
  assert.match(await page.locator(".node.selected").getAttribute("aria-label"), /^TBackward0/);
  await page.keyboard.press("Escape");
  assert.equal(await count(page, ".selected"), 0);
  for (const [key, view] of [
    ["h", "hooks"],
    ["f", "flow"],
    ["g", "graph"],
  ]) {
    await page.keyboard.press(key);
    assert.equal(await page.locator(".view:visible").getAttribute("id"), view);
  }
  await page.keyboard.press("t");
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
});
await test(
  "hooks and what they changed",
  small,
  async (page) => {
    const rows = page.locator(".hook-calls tbody tr");
    assert.equal(await rows.count(), 1); // eight calls that did the same
    assert.match(await rows.first().innerText(), /×8[^]*1–8[^]*×0\.5/);
    await rows.first().getByRole("button", { name: "×8" }).focus();
    await page.keyboard.press("Enter");
    assert.equal(await rows.count(), 9);
    assert.match(await rows.nth(3).innerText(), /#3\s+3/);
    await page.keyboard.press("Enter");
    assert.equal(await rows.count(), 1);
    await page.getByLabel("every call").check();
    assert.equal(await rows.count(), 8);
    await rows.nth(2).click();
    assert.equal(await chosenLine(page), "7");
    await page.getByLabel("Filter hook calls").fill("nothing like this");
    assert.equal(await rows.count(), 0);
  },
  { hash: "view=hooks" },
);

const detached = make(join(here, "scripts", "detached_features.py"), "torch");
for (const theme of ["light", "dark"]) {
  await test(
    "a finding leads to its line and its cut",
    detached,
    async (page) => {
      assert.equal(await chosenLine(page), "13"); // the page opens on the first finding
      assert.equal(await count(page, ".node.cut.selected"), 1);
      const stage = await page.locator("svg.graph").boundingBox();
      for (const one of [".node.cut", ".node.lost-leaf[aria-label*='[0].weight']"]) {
        const { y, height } = await page.locator(one).boundingBox(); // both fit
        assert.ok(y > stage.y && y + height < stage.y + stage.height);
      }
      assert.equal(await page.locator(".details h3").innerText(), "encoder[0].weight");
      assert.ok((await count(page, ".edges .on-way .edge.lost")) >= 4);
      await page.locator(".node.cut").click();
      assert.equal(await page.locator(".cut-note").innerText(), "✂ the gradient stops here");
      await page.locator(".evidence .place").first().click();
      assert.equal(await chosenLine(page), "12");
    },
    { theme },
  );
}

const broken = make(join(root, "examples", "broken_training.py"), "undertow");
await test("every finding is pinned", broken, async (page) => {
  const found = await count(page, "article.finding");
  assert.ok(found >= 4);
  await page.keyboard.press("Escape");
  for (let place = 0; place < found; place++) {
    await page.keyboard.press("n");
    assert.equal(await page.locator("article.finding.chosen").getAttribute("data-finding"), String(place));
    assert.ok(await page.locator(".source-line.chosen .pin").count());
  }
});
for (const theme of ["light", "dark"]) {
  await test(
    "gradient flow",
    broken,
    async (page) => {
      assert.ok((await count(page, ".flow-row")) > 18);
      await page.locator(".flow-row[title='model.encoder.skip.weight']").click();
      assert.equal(await page.locator(".details h3").innerText(), "model.encoder.skip.weight");
      await page.getByRole("button", { name: "Show in the graph" }).click();
      assert.ok(await page.locator(".node.selected").isVisible());
      await page.keyboard.press("f");
      await page.locator(".flow-row[title='model.final.weight']").focus();
      await page.keyboard.press("ArrowLeft");
      assert.match(await page.locator(".said").innerText(), /model.final.weight · step 39: norm/);
    },
    { theme, hash: "view=flow" },
  );
}

const gpt = make(join(here, "scripts", "small_gpt.py"), "torch");
await test("a thousand nodes, closed at first", gpt, async (page, begun) => {
  await page.waitForSelector(".nodes > g");
  assert.ok(Date.now() - begun < 5000);
  const shown = await count(page, ".nodes > g");
  assert.ok(shown > 20 && shown < 60, `${shown} things are shown`);
});
await test("a block opened", gpt, async (page) => {
  const before = Date.now();
  await page.keyboard.press("/");
  await page.keyboard.type("blocks.11.attn.qkv");
  await page.keyboard.press("Enter");
  assert.ok(Date.now() - before < 3000);
  assert.equal(await page.locator(".crumbs").innerText(), "model › blocks.11 › attn ›");
});
await test("everything opened", gpt, async (page) => {
  const before = Date.now();
  await page.getByRole("button", { name: "Open all" }).click();
  assert.ok((await count(page, ".nodes > g")) > 1000);
  assert.ok(Date.now() - before < 10_000, `${Date.now() - before} ms`);
  await page.locator(".minimap").click({ position: { x: 10, y: 200 } });
});
await test(
  "layers over steps",
  gpt,
  async (page) => {
    assert.equal(await count(page, ".flow-row.module"), 28);
  },
  { hash: "view=flow" },
);

const loop = make(join(here, "scripts", "unrolled_loop.py"), "undertow");
await test("a loop without modules is in parts", loop, async (page) => {
  assert.equal(await count(page, ".box.closed.part"), 3);
  await page.locator(".box.closed").first().click();
  assert.equal(await count(page, ".box.closed.part"), 26);
  assert.ok((await count(page, ".stub")) > 40); // from the stack, to the weight and the bias
  const { width } = await page.locator(".box.open").boundingBox();
  assert.ok(width < 400, `${width} wide`);
});

for (const theme of ["light", "dark"]) {
  for (const view of ["graph", "hooks", "flow"]) {
    await test(
      `axe finds nothing in ${view}`,
      broken,
      async (page) => {
        await page.keyboard.press("n");
        await page.keyboard.press(view[0]);
        await page.waitForTimeout(100);
        await page.evaluate(axe);
        // What is drawn is a short form of the name that is read out, on purpose.
        const { violations } = await page.evaluate(() =>
          window.axe.run(document, {
            resultTypes: ["violations"],
            rules: { "label-content-name-mismatch": { enabled: false } },
          }),
        );
        const said = violations.map(
          (one) =>
            `${one.id}: ${one.help} ${one.nodes
              .slice(0, 3)
              .map((node) => node.html.slice(0, 160))
              .join(" | ")}`,
        );
        assert.deepEqual(said, []);
      },
      { theme },
    );
  }
}

const sizes = [
  { width: 1440, height: 900 },
  { width: 1024, height: 768 },
  { width: 400, height: 800 },
];
/** How far an element's middle is from another's, in pixels. */
async function apart(one, other) {
  const [a, b] = [await one.boundingBox(), await other.boundingBox()];
  return Math.hypot(a.x + a.width / 2 - b.x - b.width / 2, a.y + a.height / 2 - b.y - b.height / 2);
}
/** The size on the screen of the smallest text that the graph shows. */
const smallestText = (page) =>
  page.evaluate(() =>
    Math.min(
      ...[...document.querySelectorAll("svg.graph .nodes text, svg.graph .boxes text")]
        .filter((text) => text.textContent && getComputedStyle(text).display !== "none")
        .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
    ),
  );
for (const size of sizes) {
  await test(
    `opens on the first finding, ${size.width} wide`,
    broken,
    async (page) => {
      const card = page.locator("article.finding.chosen");
      assert.equal(await card.getAttribute("data-finding"), "0");
      assert.equal(await card.locator(".excerpt").innerText(), "self.skip = nn.Linear(pixels, width)");
      for (const part of [".excerpt", ".evidence li:last-child", ".cure"])
        assert.ok(await card.locator(part).evaluate((element) => element.getBoundingClientRect().bottom < innerHeight));
      const line = page.locator(".source-line.chosen");
      assert.equal(await line.locator(".line-number").innerText(), "21");
      const [inner, outer] = [await line.boundingBox(), await page.locator(".source-lines").boundingBox()];
      assert.ok(inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height);
      assert.ok(await page.locator(".source-lines").evaluate((code) => code.scrollWidth <= code.clientWidth));
      const own = page.getByRole("button", { name: "leaf model.encoder.skip.weight" });
      assert.match(await own.getAttribute("class"), /selected/);
      assert.ok((await apart(own.locator(".face"), page.locator("svg.graph"))) < 5);
      assert.ok((await smallestText(page)) >= 12);
      if (size.width < 720) return;
      const [map, graph] = [
        await page.locator(".minimap").boundingBox(),
        await page.locator("svg.graph").boundingBox(),
      ];
      assert.ok(map.x >= graph.x + graph.width);
    },
    size,
  );
}
await test(
  "each finding's own tensor or hook is centred",
  broken,
  async (page) => {
    for (const [place, name] of [
      [1, "leaf model.heads[0].weight"],
      [2, "leaf model.uncertainty.weight"],
      [3, "leaf model.final.weight"],
      [4, "encoder, Encoder, open"],
      [5, "AddBackward0 of add"],
    ]) {
      await page.locator(".finding-head").nth(place).click();
      const own = page.locator(`[aria-label^="${name}"]`).first();
      assert.match(await own.getAttribute("class"), /selected/, name);
      assert.ok((await apart(own.locator(".face"), page.locator("svg.graph"))) < 5, name);
      assert.ok((await smallestText(page)) >= 12);
    }
  },
  { width: 1800, height: 1000 },
);
await test("the address", broken, async (page) => {
  const chosen = () => page.locator("article.finding.chosen").getAttribute("data-finding");
  await page.locator(".finding-head").nth(1).click();
  await page.waitForURL(/#finding=2$/);
  await page.keyboard.press("/");
  await page.keyboard.type("model.final.bias");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#finding=2&select=n\d+$/);
  const linked = page.url();
  await page.keyboard.press("f");
  await page.waitForURL(/view=flow/);
  await page.goBack();
  assert.equal(await page.locator(".view:visible").getAttribute("id"), "graph");
  assert.equal(await page.locator(".details h3").innerText(), "model.final.bias");
  await page.goBack();
  assert.equal(await page.locator(".details h3").innerText(), "model.heads[0].weight");
  await page.goBack();
  assert.equal(await chosen(), "0");
  await page.goForward();
  assert.equal(await chosen(), "1");
  await page.keyboard.press("Escape");
  await page.waitForURL(/#finding=none$/);
  assert.equal(await count(page, "article.chosen"), 0);
  await page.goto("about:blank");
  await page.goto(linked);
  assert.equal(await chosen(), "1");
  assert.equal(await page.locator(".details h3").innerText(), "model.final.bias");
  await page.goto("about:blank");
  await page.goto(`file://${broken.target}#finding=99&view=nothing&select=n0&pass=x`); // of another page
  assert.equal(await chosen(), "0");
});
await test("the keyboard through findings, tabs and source", broken, async (page) => {
  await page.locator(".finding-head").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("article.chosen").getAttribute("data-finding"), "1");
  await page.locator("[role=tab][aria-selected=true]").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator(":focus").getAttribute("id"), "tab-hooks");
  assert.equal(await page.locator(".view:visible").getAttribute("id"), "hooks");
  await page.locator(".source-lines").focus();
  await page.keyboard.press("ArrowDown");
  assert.equal(await chosenLine(page), "40");
});
await test("counts on the tabs", broken, async (page) => {
  const onTab = async (name) => Number(await page.locator(`#tab-${name} i`).innerText());
  assert.match(await page.locator(".graph-view .facts").innerText(), new RegExp(`^${await onTab("graph")} nodes`));
  await page.keyboard.press("h");
  assert.equal(await page.locator(".hooks-view .facts").innerText(), `${await onTab("hooks")} hooks, 40 calls`);
  assert.equal((await count(page, ".silent li")) + (await count(page, ".hook-calls tbody tr")), await onTab("hooks"));
  await page.keyboard.press("f");
  assert.equal(await page.locator(".said").innerText(), `${await onTab("flow")} parameters over 40 steps`);
});
for (const view of ["graph", "hooks", "flow"]) {
  await test(
    `400 wide: ${view}`,
    broken,
    async (page) => {
      const beyond = await page.evaluate(() =>
        [...document.querySelectorAll("body *:not(svg *, script, style)")]
          .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > 400.5)
          .map((element) => element.className || element.tagName),
      );
      assert.deepEqual(beyond, []);
      assert.ok((await page.locator("header").boundingBox()).height < 75);
      if (view === "graph") assert.ok((await page.locator(".graph-view .toolbar").boundingBox()).height < 50);
    },
    { width: 400, height: 800, hash: `view=${view}` },
  );
}

const untrained = make(join(here, "scripts", "no_backward.py"), "undertow");
await test("without a backward pass nothing was judged", untrained, async (page) => {
  assert.equal(await page.locator(".findings").innerText(), "Nothing was judged\n\nThe program ran no backward pass.");
  assert.equal(await count(page, ".healthy"), 0);
  assert.deepEqual(await page.locator("[role=tab] i").allInnerTexts(), ["0", "0", "0"]);
});

const noted = make(join(here, "scripts", "softmax_twice.py"), "undertow");
await test("notes are apart from findings", noted, async (page) => {
  assert.deepEqual(await page.locator(".findings h2").allInnerTexts(), ["No finding", "1 note"]);
  assert.match(await page.locator(".findings .about").innerText(), /exit status at 0/);
  const [note] = await page
    .locator("article.finding")
    .evaluateAll((cards) => cards.map((card) => getComputedStyle(card.querySelector(".code")).color));
  assert.notEqual(note, "rgb(179, 38, 30)"); // the red of findings
  assert.match(await page.locator(".node.selected").getAttribute("aria-label"), /^SoftmaxBackward0/);
});

await browser.close();
console.log(failed ? `${failed} failed` : "all well");
process.exit(failed ? 1 : 0);
