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

/** Runs one test on one page; anything that the page complains of, or asks the network for, fails it. */
async function test(title, { name, target }, check, { theme = "light", hash = "", width = 1440, height = 900 } = {}) {
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
    assert.equal(await count(page, ".hook-calls tbody tr"), 8);
    assert.match(await page.locator(".hook-calls tbody tr").first().innerText(), /×0\.5/);
    await page.getByLabel("Filter hook calls").fill("backward 3");
    assert.equal(await count(page, ".hook-calls tbody tr"), 1);
    await page.locator(".hook-calls tbody tr").click();
    assert.equal(await chosenLine(page), "7");
  },
  { hash: "view=hooks" },
);

const detached = make(join(here, "scripts", "detached_features.py"), "torch");
for (const theme of ["light", "dark"]) {
  await test(
    "a finding leads to its line and its cut",
    detached,
    async (page) => {
      await page.locator(".finding-head").click();
      assert.equal(await chosenLine(page), "13");
      assert.equal(await count(page, ".node.cut.selected"), 1);
      assert.ok((await count(page, ".edges .on-way .edge.lost")) >= 4);
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
await test(
  "a narrow window",
  broken,
  async (page) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 700, `${wide} wide`);
  },
  { width: 700, height: 900 },
);

await browser.close();
console.log(failed ? `${failed} failed` : "all well");
process.exit(failed ? 1 : 0);
