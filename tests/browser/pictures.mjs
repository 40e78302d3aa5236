// Pictures of every page of the estate: wide and on a phone, light and dark, whole pages.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { Session } from "./browser.mjs";
import { legible } from "./legible.mjs";

/** Wide, a phone, and a narrow screen, of which there is no picture. */
const NARROW = 320;
const SCREENS = { w: 1440, p: 390, n: NARROW };
const SCHEMES = { l: "light", d: "dark" };

const of = (name, below = "") => `/topics/orders/subscriptions/${name}${below}`;

/** Of a longer page the beginning is shown. */
const HEIGHT_MAX = 5_000;

/** The pages by the names of their pictures; a function finds the page on another one. */
const PAGES = {
  overview: "/",
  topics: "/topics",
  topic: "/topics/orders",
  "topic-empty": "/topics/returns",
  subscription: of("billing"),
  "subscription-waiting": of("crm"),
  "subscription-paused": of("legacy-erp"),
  "subscription-healthy": of("warehouse"),
  "subscription-refuses": of("tax"),
  deliveries: of("crm", "/deliveries"),
  delivery: (link) => link(of("fraud", "/deliveries"), of("fraud", "/deliveries/")),
  "dead-letters": of("billing", "/dead-letters"),
  "dead-letter": (link) => link(of("tax", "/dead-letters"), of("tax", "/dead-letters/")),
  "dead-letters-all": "/dead-letters",
  redrive: of("billing", "/redrive"),
  redrives: async (_, world) => {
    const { value } = await world.manage("GET", "/topics/orders/eventSubscriptions/tax/redrives");
    return of("tax", `/redrives/${value[0].id}`);
  },
  purge: of("billing", "/purge"),
  events: "/events",
  event: async (_, world) => {
    const { value } = await world.manage("GET", "/topics/orders/eventSubscriptions/billing/deadLetters");
    return `/events?topic=orders&id=${encodeURIComponent(value[0].eventId)}`;
  },
  "event-unknown": "/events?topic=orders&id=order-1",
  waiting: "/waiting",
  tail: "/tail",
  ledger: "/ledger",
  cost: "/cost",
  "create-topic": "/create-topic",
  "edit-topic": "/topics/orders/edit",
  subscribe: "/topics/orders/subscribe",
  publish: "/topics/orders/publish",
  "publish-json": "/topics/orders/publish?as=json",
  edit: of("billing", "/edit"),
  "edit-json": of("billing", "/edit/json"),
  retry: of("crm", "/retry"),
  filter: of("fraud", "/filter"),
  "test-event": of("billing", "/test-event"),
  delete: of("legacy-erp", "/delete"),
  "no-such-page": "/nothing",
};

/** Looks at the pages whose names contain that word, and makes their pictures if there is a folder for them; returns what is
 * wrong with them. */
export async function pictures(browser, world, folder, word = "") {
  if (folder !== null) mkdirSync(folder, { recursive: true });
  const session = await Session.open(browser, await world.console());
  const { page } = session;
  const link = async (list, beginning) => {
    await page.goto(list);
    return await page.locator(`main a[href^="${beginning}"]`).first().getAttribute("href", { timeout: 5_000 });
  };
  const wrong = [];
  const trying = async (name, does) => {
    try { await does(); } catch (error) { wrong.push(`${name}: ${error.message}`); }
  };
  for (const [at, [name, path]] of Object.entries(PAGES).entries()) {
    if (!name.includes(word)) continue;
    await trying(name, async () => {
      await page.goto(typeof path === "string" ? path : await path(link, world));
      // The live tail, and what a stream sends.
      if (name === "tail") await page.waitForTimeout(4_000);
    });
    for (const [screen, width] of Object.entries(SCREENS)) {
      await page.setViewportSize({ width, height: 900 });
      await trying(name, async () => await legible(page));
      if (folder === null || width === NARROW) continue;
      for (const [scheme, colorScheme] of Object.entries(SCHEMES)) {
        await page.emulateMedia({ colorScheme });
        // What sticks to the screen is then where it is on a screen of that height.
        const height = Math.min(await page.evaluate(() => document.documentElement.scrollHeight), HEIGHT_MAX);
        await page.setViewportSize({ width, height });
        await page.screenshot({ path: join(folder, `${String(at + 1).padStart(2, "0")}-${name}-${screen}${scheme}.png`) });
      }
    }
  }
  await session.context.close();
  return wrong;
}
