// Chromium, signed in to a console, with the checks that every page must pass.
import assert from "node:assert/strict";
import { accessSync, constants, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";

import { legible } from "./legible.mjs";
import { AXE, chromium } from "./packages.mjs";
import { PATIENCE_MS } from "./world.mjs";

/** Host names of attackers that lead to this machine: `rebound` to the console, `elsewhere` to another site. */
export const REBOUND = "rebound.test";
export const ELSEWHERE = "elsewhere.test";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

const FLAGS = [
  "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-proxy-server",
  // No name leads anywhere but to this machine.
  `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1, MAP ${ELSEWHERE} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
];

function program() {
  if (process.env.GRIDPOST_CHROMIUM) return process.env.GRIDPOST_CHROMIUM;
  const folders = (process.env.PATH ?? "").split(delimiter);
  for (const file of NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch { /* the next one */ }
  }
  throw new Error(`none of ${NAMES.join(", ")} is on the PATH: sudo apt-get install chromium`);
}

/** Gives the files of the source, which may be newer than the program's. */
async function fromSource(route) {
  const request = route.request();
  if (new URL(request.frame().url()).origin !== new URL(request.url()).origin) { await route.continue(); return; }
  const name = new URL(request.url()).pathname.split("/").pop();
  await route.fulfill({ path: new URL(`../../cli/console/src/assets/${name}`, import.meta.url).pathname });
}

export async function launch() {
  return await chromium.launch({ executablePath: program(), headless: true, chromiumSandbox: false, args: FLAGS });
}

/** A window onto one console, and what went wrong in it. */
export class Session {
  /** Requests of all sessions that were not refused: method and path. */
  static done = new Set();

  /** Signs in with the console's link, or with the cookie of an earlier session of the same console. */
  static async open(browser, console, settings = {}) {
    const session = new Session();
    session.console = console;
    session.context = await browser.newContext({ baseURL: console.url, storageState: console.kept, ...settings });
    session.context.setDefaultTimeout(PATIENCE_MS);
    session.wrong = [];
    session.forgiven = [];
    session.clicks = 0;
    // Origins besides the console's that a test visits.
    session.others = [];
    if (process.env.GRIDPOST_ASSETS) await session.context.route(`${console.url}/assets/*`, fromSource);
    session.context.on("request", (request) => session.#check(request));
    session.context.on("response", (answer) => session.#note(answer));
    session.context.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) session.wrong.push(`${message.type()}: ${message.text()}`);
    });
    session.context.on("weberror", (error) => session.wrong.push(`script: ${error.error()}`));
    session.context.on("dialog", (dialog) => { session.wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    session.page = await session.context.newPage();
    if (!console.kept) {
      await session.page.goto(console.signInUrl);
      console.kept = await session.context.storageState();
    }
    return session;
  }

  #check(request) {
    const { origin } = new URL(request.url());
    if (![this.console.url, ...this.others].includes(origin)) this.wrong.push(`a request to ${request.url()}`);
  }

  #note(answer) {
    const url = new URL(answer.url());
    if (url.origin === this.console.url && answer.status() < 400) {
      Session.done.add(`${answer.request().method()} ${url.pathname}`);
    }
  }

  /** Opens a page, which has that status, or one of those. */
  async go(path, ...statuses) {
    const status = (await this.page.goto(path)).status();
    const shown = await this.page.locator("main").innerText();
    assert.ok(statuses.length ? statuses.includes(status) : status === 200, `${path}: ${status} ${shown}`);
    if (status >= 400) this.forgive(new RegExp(`status of ${status}`));
    return this.page;
  }

  /** Reloads a page until it shows a text. */
  async shows(path, text) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      await this.page.goto(path);
      const shown = await this.page.locator("main").innerText();
      if (typeof text === "string" ? shown.includes(text) : text.test(shown)) return this.page;
      assert.ok(Date.now() < end, `${path} does not show ${text}, but\n${shown}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Clicks a button or link of that name in the page's content, and waits for the page that comes. */
  async click(name, role = "button") {
    const found = this.page.locator("main").getByRole(role, { name, exact: typeof name === "string" });
    this.clicks += 1;
    const isPage = (one) => one.request().isNavigationRequest() && one.status() !== 303;
    const [answer] = await Promise.all([this.page.waitForResponse(isPage), found.first().click()]);
    await this.page.waitForLoadState("load");
    if (answer.status() >= 400) this.forgive(new RegExp(`status of ${answer.status()}`));
    return answer.status();
  }

  /** Counts by a redrive's form until that is told: what was written in the last two seconds is left to the next one. */
  async counts(told, fill = () => null) {
    const form = this.page.url();
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      await fill();
      await this.click("Count them (dry run)");
      await this.page.getByText("Completed").waitFor();
      if ((await this.text()).includes(told)) return;
      assert.ok(Date.now() < end, `${form} does not count ${told}`);
      await this.go(form);
    }
  }

  /** The field of that name in the content. */
  field(name, settings) {
    return this.page.locator("main").getByLabel(name, settings);
  }

  /** What the content says. */
  async text() {
    return await this.page.locator("main").innerText();
  }

  async says(part) {
    const text = await this.text();
    assert.ok(typeof part === "string" ? text.includes(part) : part.test(text), `\`${part}\` is not in\n${text}`);
  }

  /** Failures that are expected; the browser may report them later. */
  forgive(pattern) {
    this.forgiven.push(pattern);
  }

  /** Checks that nothing went wrong: no script error, no violation of the policy, no request to elsewhere. */
  fine() {
    assert.deepEqual(this.wrong.filter((one) => !this.forgiven.some((pattern) => pattern.test(one))), []);
  }

  async close() {
    this.fine();
    await this.context.close();
  }
}

const RULES = { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] } };

/** The colour schemes and screens in which each page is checked. */
const LOOKS = [{ colorScheme: "light", width: 1280 }, { colorScheme: "dark", width: 320 }];

/** The width of most phones; axe finds there what it finds on a narrower one. */
const PHONE = 390;

/** Checks that axe finds nothing on the page, and that it can be read, on a narrow screen without scrolling to the side. */
export async function accessible(page, looks = LOOKS) {
  if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(AXE);
  try {
    for (const { colorScheme, width } of looks) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      const found = await page.evaluate((rules) => axe.run(document, rules), RULES);
      const told = found.violations.map((one) => [one.id, one.nodes.map((node) => `${node.html}: ${node.failureSummary}`)]);
      assert.deepEqual(told, [], `${page.url()}, ${colorScheme}, ${width} pixels`);
      await legible(page);
    }
    await page.setViewportSize({ width: PHONE, height: 800 });
    await legible(page);
  } finally {
    await page.emulateMedia({ colorScheme: null });
    await page.setViewportSize({ width: 1280, height: 800 });
  }
}

/** Keeps a picture for the documentation, if pictures are requested. */
export async function picture(page, name) {
  if (process.env.GRIDPOST_SCREENSHOTS !== "1") return;
  const folder = new URL("../../docs/console/", import.meta.url).pathname;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
