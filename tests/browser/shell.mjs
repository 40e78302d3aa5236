// What all pages have: keys, the search, the menu of a narrow screen, copying, and parts that come anew.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Session, accessible } from "./browser.mjs";
import { memory } from "./memory.mjs";
import { driven } from "./stream.mjs";

/** Sends each part of the page as it is, with each element in turn that can have the focus; returns what was lost. */
function swapped() {
  const focusable = "a[href], button, summary, [tabindex]";
  const lost = [];
  // As the server sends it.
  const sent = (part) => part.outerHTML.replace(/ (style|data-at|open|tabindex="-1")="[^"]*"/g, "");
  const send = (part) => window.streams[0].tell("part", JSON.stringify(sent(part)));
  const parts = [...document.querySelectorAll("[data-part]")].map((part) => part.id);
  const visible = (id) => [...document.getElementById(id).querySelectorAll(focusable)].filter((one) => one.checkVisibility());
  for (const id of parts) {
    for (const details of document.getElementById(id).querySelectorAll("details")) details.open = true;
    for (const [index, one] of visible(id).entries()) {
      one.focus();
      if (document.activeElement !== one) continue;
      one.scrollLeft = 7;
      const { scrollLeft } = one;
      const html = one.outerHTML;
      send(document.getElementById(id));
      const now = visible(id)[index];
      if (document.activeElement !== now || now === one) lost.push(`the focus of ${html.slice(0, 120)}`);
      if (now.scrollLeft !== scrollLeft) lost.push(`how far it is scrolled: ${html.slice(0, 120)}`);
    }
    for (const details of document.getElementById(id).querySelectorAll("details")) if (!details.open) lost.push(`that ${id} was open`);
  }
  return { lost, parts };
}

export function shell(ground) {
  /** A test with its own window, in which nothing may go wrong. */
  const look = (name, does, settings) => test(name, async () => {
    const session = await Session.open(ground.browser, ground.console, settings);
    await does(session, session.page);
    await session.close();
  });
  const at = (page) => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.innerText);

  look("keys lead to pages, to the search, and along the rows of a table", async (session, page) => {
    await session.go("/");
    const keys = await page.locator("[data-go]").evaluateAll((all) => all.map((one) => [one.dataset.go, one.dataset.url]));
    assert.equal(keys.length, 8);
    for (const [key, url] of keys) {
      await page.keyboard.press("g");
      await Promise.all([page.waitForEvent("load"), page.keyboard.press(key)]);
      assert.equal(new URL(page.url()).pathname, url);
    }
    await session.go("/topics");
    const rows = page.locator("main tbody tr");
    for (const [key, row] of [["j", 0], ["j", 1], ["j", 2], ["k", 1]]) {
      await page.keyboard.press(key);
      const first = rows.nth(row).locator("a[href]").first();
      assert.ok(await first.evaluate((it) => it === document.activeElement), `${key} does not lead to row ${row}`);
    }
    await page.keyboard.press("/");
    assert.equal(await at(page), "Find an event by its id");
    // Where one types, keys are letters.
    await page.keyboard.type("gt/?j");
    assert.equal(await page.locator(".find input").inputValue(), "gt/?j");
    await page.keyboard.press("Enter");
    await page.waitForURL((now) => now.pathname === "/events" && now.searchParams.get("id") === "gt/?j");
  });

  look("the keys are listed in a dialog, which gives the focus back", async (session, page) => {
    await session.go("/topics");
    const button = page.getByRole("button", { name: "keyboard shortcuts" });
    await button.focus();
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await dialog.waitFor();
    await accessible(page);
    await page.keyboard.press("Escape");
    assert.equal(await dialog.count(), 0);
    assert.ok(await button.evaluate((it) => it === document.activeElement));
    await button.click();
    await dialog.getByRole("button", { name: "Close" }).click();
    assert.equal(await dialog.count(), 0);
  });

  const phone = { viewport: { width: 390, height: 800 } };
  const menu = async (session, page) => {
    await session.go("/topics");
    const nav = page.getByRole("navigation", { name: "Pages" });
    assert.equal(await nav.count(), 0);
    const button = page.getByRole("button", { name: "Menu and search" });
    await button.focus();
    await page.keyboard.press("Enter");
    await nav.waitFor();
    await page.keyboard.press("Escape");
    await nav.waitFor({ state: "hidden" });
    assert.ok(await button.evaluate((it) => it === document.activeElement));
    await page.keyboard.press("Enter");
    await accessible(page, [{ colorScheme: "light", width: 390 }, { colorScheme: "dark", width: 320 }]);
    await page.setViewportSize(phone.viewport);
    await nav.waitFor();
    await page.keyboard.press("Escape");
    await button.focus();
    await page.keyboard.press("Enter");
    await nav.getByRole("link", { name: "Cost" }).click();
    await page.getByRole("heading", { level: 1, name: "Cost" }).waitFor();
  };
  look("a narrow screen has a menu, which the keyboard opens and closes", async (session, page) => {
    await menu(session, page);
    await page.keyboard.press("/");
    assert.equal(await at(page), "Find an event by its id");
  }, phone);

  look("without a script there are the same menu and search, and no button that does nothing", async (session, page) => {
    await session.go("/topics");
    await page.getByRole("button", { name: "Menu and search" }).click();
    await page.getByRole("searchbox").fill("plain-1");
    await page.keyboard.press("Enter");
    await page.waitForURL((now) => now.searchParams.get("id") === "plain-1");
    for (const path of ["/", "/topics", "/tail"]) {
      await session.go(path);
      const dead = await page.locator("button:visible").evaluateAll((all) => all
        .filter((one) => one.type === "button" && !one.hasAttribute("popovertarget")).map((one) => one.outerHTML));
      assert.deepEqual(dead, [], path);
    }
  }, { ...phone, javaScriptEnabled: false });

  look("what is copied is what is shown", async (session, page) => {
    await session.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await session.go("/topics");
    await page.getByRole("button", { name: "Copy the command" }).click();
    await page.getByRole("status").filter({ hasText: "Copied." }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await page.locator("aside.cli code").innerText());
    await accessible(page);
  });

  look("a part that comes anew keeps the focus, open boxes and how far it is scrolled", async (session, page) => {
    await ground.world.topic("swapped", { one: { path: "/swapped", status: 503 } });
    await ground.world.publish("swapped", { id: "swapped-1" });
    await session.shows("/topics/swapped/subscriptions/one", "503");
    for (const path of ["/", "/topics/swapped", "/topics/swapped/subscriptions/one"]) {
      await page.setViewportSize({ width: 800, height: 800 });
      await driven(session, path);
      const { lost, parts } = await page.evaluate(swapped);
      assert.deepEqual(lost, [], path);
      assert.ok(parts.length > 0, `${path} has no part that comes anew`);
      await page.keyboard.press("Tab");
    }
  });

  look("a page follows its stream while it is looked at", async (session, page) => {
    await driven(session, "/");
    const open = () => page.evaluate(() => window.streams.filter((one) => !one.closed).map((one) => one.url));
    const hide = (is) => page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { value: is, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, is);
    const [url] = await open();
    assert.match(url, /^\/live\?page=%2F/);
    const note = page.getByText("This page is not up to date");
    const tell = (name, data = "") => page.evaluate(([name, data]) => window.streams.at(-1).tell(name, data), [name, data]);
    await tell("now", String(Date.now()));
    await page.getByText("Live", { exact: true }).waitFor();
    await tell("problem");
    await note.waitFor();
    await accessible(page);
    await tell("now", String(Date.now()));
    await note.waitFor({ state: "hidden" });
    await hide(true);
    assert.deepEqual(await open(), []);
    await hide(false);
    assert.deepEqual(await open(), [url]);
    await tell("over");
    assert.deepEqual(await open(), []);
    // What is over does not begin again.
    await hide(true);
    await hide(false);
    assert.deepEqual(await open(), []);
  });

  look("times are said from the deployment's clock", async (session, page) => {
    await driven(session, "/topics/swapped/subscriptions/one");
    const created = page.locator("time").first();
    const utc = Date.parse(await created.getAttribute("datetime"));
    await page.evaluate((now) => window.streams[0].tell("now", String(now)), utc + 3 * 3600_000 + 120_000);
    await page.getByText("3 h 2 min ago").first().waitFor();
    assert.match(await created.getAttribute("title"), /UTC/);
  });

  look("a page that is looked at for long keeps nothing of what it showed", async (session) => {
    const { before, after } = await memory(session, "/", 1_000);
    const more = { bytes: after.bytes - before.bytes, nodes: after.nodes - before.nodes, listeners: after.listeners - before.listeners };
    assert.ok(more.bytes < 300_000 && more.nodes < 200 && more.listeners < 20, JSON.stringify(more));
  });
}
