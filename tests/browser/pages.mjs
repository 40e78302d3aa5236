// Every page: what it loads and how much, what axe finds, whether the keyboard gets everywhere.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Session, accessible } from "./browser.mjs";
import { findsIllegible } from "./legible.mjs";
import { routes, rows } from "./routes.mjs";
import { findsWrongs, structured } from "./tree.mjs";
import { LETTERS } from "./world.mjs";

/** The largest size of a page with everything that it loads. */
const BYTES_MAX = 100_000;

/** More event subscriptions than a page of a topic has. */
const MANY = 24;

const BUSY = "/topics/pages/subscriptions/busy";
const REFUSED = "/topics/pages/subscriptions/refused";

/** A topic with something on each of its pages; the pages by their names in docs/console.md. */
async function filled(world, session) {
  await world.topic("pages", {
    signed: { signing: { scheme: "StandardWebhooks" } },
    busy: { status: 503, filter: { includedEventTypes: ["Busy"] } },
    refused: { status: 400, filter: { includedEventTypes: ["Refused"] }, ...LETTERS },
  });
  await world.topic("bare");
  const types = ["Busy", "Refused"];
  await world.publish("pages", ...types.map((type) => ({ id: `pages-${type}`, eventType: type })));
  const first = async (path) => await session.page.locator(`main td a[href^="${path}/"]`).first().getAttribute("href");
  await session.shows(`${BUSY}/deliveries`, "503");
  const delivery = await first(`${BUSY}/deliveries`);
  await session.shows(`${REFUSED}/dead-letters`, "pages-Refused");
  const letter = await first(`${REFUSED}/dead-letters`);
  await session.go(`${REFUSED}/redrive`);
  await session.click("Count them (dry run)");
  await session.page.getByText("Completed").waitFor();
  const job = new URL(session.page.url()).pathname;
  return {
    Overview: ["/"],
    Topics: ["/topics", "/create-topic"],
    Topic: ["/topics/pages", "/topics/bare", ...["/publish", "/publish?as=json", "/subscribe", "/edit", "/delete"].map((it) => `/topics/pages${it}`)],
    "Event subscription": [BUSY, REFUSED, "/topics/pages/subscriptions/signed", `${BUSY}/delete`],
    Edit: [`${BUSY}/edit`, `${BUSY}/edit/json`],
    "Retry schedule": [`${BUSY}/retry`, `${BUSY}/retry?retryPolicy.maxDeliveryAttempts=99`],
    "Test its filter": [`${BUSY}/filter`],
    "Test event": [`${BUSY}/test-event`],
    "Failing deliveries": [`${BUSY}/deliveries`, `${REFUSED}/deliveries`, delivery],
    "Find an event": ["/events", "/events?topic=pages&id=pages-Refused", "/events?topic=pages&id=pages-Busy", "/events?topic=pages&id=none"],
    "Dead letters": ["/dead-letters", `${BUSY}/dead-letters`, `${REFUSED}/dead-letters`, `${REFUSED}/dead-letters?reason=None`, letter,
      `${REFUSED}/redrive`, job, `${REFUSED}/purge`],
    Waiting: ["/waiting"],
    "Live tail": ["/tail", "/tail?topic=pages&failed=yes"],
    Ledger: ["/ledger"],
    Cost: ["/cost"],
  };
}

/** Error pages. */
const FAILURES = [["/nothing", 404], ["/topics/none", 404], ["/cost?events=x", 400]];

/** Searches with characters that do not show: they are left out, and that is told. */
const HIDDEN = [
  ["/events?topic=pages&id=pages-Refused%E2%80%8B", "pages-Refused\\u{200b}", "Dead-lettered"],
  [`${REFUSED}/dead-letters?event=%C2%A0pages-Refused%0A`, "\\u{a0}pages-Refused\\u{a}", "pages-Refused"],
];

/** Paths that no page has a link to. */
const UNLINKED = ["/sign-in", "/assets/[^/]+", "/live", "/tail/stream"];

/** Opens a page; returns its size with everything that it loads. */
async function weight(session, path) {
  const protocol = await session.context.newCDPSession(session.page);
  let bytes = 0;
  protocol.on("Network.loadingFinished", (one) => { bytes += one.encodedDataLength; });
  await protocol.send("Network.enable");
  await session.go(path);
  await protocol.detach();
  return bytes;
}

/** The page's Tab stops, and whether each shows that it has the focus. */
async function stops(page) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    window.stops = [];
    document.addEventListener("focusin", ({ target }) => {
      const style = getComputedStyle(target);
      const { width, height } = target.getBoundingClientRect();
      const shows = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && width > 0 && height > 0;
      window.stops.push({ what: target.outerHTML.slice(0, 120), shows });
      target.dataset.stop = "";
    });
  });
  const usable = await page.locator(USABLE).count();
  for (let press = 0; press <= usable; press += 1) await page.keyboard.press("Tab");
  return await page.evaluate(() => window.stops);
}

/** The elements that a mouse can use on a page, and those that scroll. */
const USABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";

/** Checks that the keyboard reaches everything, first the skip link, and that the focus is visible. */
async function usableByKeys(page, path) {
  const found = await stops(page);
  assert.ok(found[0].what.includes("skip"), `${path}: ${found[0].what}`);
  assert.deepEqual(found.filter((stop) => !stop.shows), [], path);
  const left = await page.locator(USABLE).evaluateAll((those) => those
    .filter((one) => one.checkVisibility() && one.dataset.stop === undefined)
    .map((one) => one.outerHTML.slice(0, 120)));
  assert.deepEqual(left, [], `${path}: the keyboard does not get there`);
}

export function pages(ground) {
  let session;
  let all;

  before(async () => {
    session = await Session.open(ground.browser, ground.console);
    all = await filled(ground.world, session);
  });

  test("every page of docs/console.md has its pages here", () => {
    assert.deepEqual(rows("## Pages"), Object.keys(all));
    session.fine();
  });

  test("every page: at most 100 KB, nothing from elsewhere, nothing that axe finds, usable by keys", async (context) => {
    let most = 0;
    const linked = new Set();
    await session.shows("/waiting", "parked/one");
    for (const [name, paths] of Object.entries(all)) {
      await context.test(name, async () => {
        for (const path of paths) {
          const bytes = await weight(session, path);
          assert.ok(bytes > 30_000 && bytes <= BYTES_MAX, `${path} weighs ${bytes} bytes`);
          most = Math.max(most, bytes);
          await usableByKeys(session.page, path);
          await accessible(session.page);
          await structured(session.page);
          const same = session.page.getByRole("complementary", { name: "The same on the command line" });
          assert.match(await same.innerText(), /gridpost \w/, path);
          assert.equal(await same.getByRole("button", { name: "Copy the command" }).count(), 1, path);
          const links = await session.page.locator("a[href^='/']").evaluateAll((those) => those.map((one) => one.pathname));
          for (const link of links) linked.add(link);
          session.fine();
        }
      });
    }
    await context.test("a link leads to every page, and every link to a page", async () => {
      const left = routes().filter(([method, path]) => method === "GET" && !UNLINKED.includes(path)
        && ![...linked].some((link) => new RegExp(`^${path}$`).test(link)));
      assert.deepEqual(left, []);
      const visited = new Set(Object.values(all).flat().map((path) => path.split("?")[0]));
      for (const link of linked) if (!visited.has(link)) await session.go(link);
      session.fine();
    });
    await context.test("what says that something did not work", async () => {
      for (const [path, status] of FAILURES) {
        const page = await session.go(path, status);
        await accessible(page);
        await structured(page);
      }
      session.fine();
    });
    context.diagnostic(`the heaviest page has ${most} bytes with all that it loads`);
  });

  test("a topic's event subscriptions come a page at a time, those in trouble first", async () => {
    const { world } = ground;
    const many = Array.from({ length: MANY }, (_, at) => [`fine-${at}`, { path: "/crowd" }]);
    await world.topic("crowd", Object.fromEntries([...many, ["in-trouble", { status: 503 }]]));
    await world.publish("crowd", { id: "crowd-1" });
    const page = await session.shows("/topics/crowd", `1 of ${MANY + 1} need attention`);
    assert.equal(await page.locator("#table-event-subscriptions tbody a").first().innerText(), "in-trouble");
    assert.ok(await weight(session, "/topics/crowd") <= BYTES_MAX);
    await page.getByText("Java", { exact: true }).click();
    await page.getByText("buildEventGridEventPublisherClient").waitFor();
    await session.click("Next page", "link");
    await session.says(`21 to ${MANY + 1} of ${MANY + 1}`);
    await accessible(page);
    await session.go("/topics");
    const row = page.getByRole("row").filter({ hasText: "crowd" });
    await row.getByText(`1 of ${MANY + 1} event subscriptions`).waitFor();
  });

  test("what is wrong for a screen reader is found", async () => await findsWrongs(ground.browser));

  test("what is hard to read is found", async () => await findsIllegible(ground.browser));

  test("a page without JavaScript shows the same, with its times in UTC", async () => {
    const plain = await Session.open(ground.browser, ground.console, { javaScriptEnabled: false });
    for (const [path] of Object.values(all)) await plain.go(path);
    await plain.shows("/waiting", "parked/one");
    await plain.says(" UTC");
    await plain.close();
  });

  test("characters that do not show are left out of a search, and that is told", async () => {
    for (const [path, given, found] of HIDDEN) {
      const page = await session.go(path);
      await page.getByRole("status").filter({ hasText: given }).waitFor();
      await session.says(found);
      await accessible(page);
      await structured(page);
      await session.click("Look for exactly what was given", "link");
      assert.ok(!(await session.text()).includes("were left out"), path);
    }
  });

  test("a dead letter is found and sent again by keys alone", async () => {
    const page = await session.go("/");
    const to = async (name) => {
      for (let presses = 0; presses < 100; presses += 1) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate(() => document.activeElement.innerText ?? "");
        if (at.trim() === name) return;
      }
      assert.fail(`no Tab leads to ${name} on ${page.url()}`);
    };
    const enter = async (name, shows) => {
      await to(name);
      await Promise.all([page.waitForEvent("load"), page.keyboard.press("Enter")]);
      await page.getByRole("heading", { level: 1, name: shows }).waitFor();
    };
    await enter("Dead letters", "Dead letters");
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await enter("pages/refused", "Dead letters");
    await enter("pages-Refused", "Dead letter");
    await enter("Redrive…", "Redrive dead letters");
    await enter("Count them (dry run)", "Dry run of a redrive");
    await page.getByText("Send these 1 event").waitFor();
    await enter("Send these 1 event", /^Redrive$/);
    await page.getByText("1 of 1 events sent").waitFor();
  });

  after(async () => await session?.close());
}

