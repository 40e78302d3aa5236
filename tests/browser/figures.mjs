// How fast pages are, as medians of ten: with a nearly empty deployment, and with a million events in the journal, 100,000
// deliveries that wait and 500 event subscriptions; and what 10,000 updates leave in memory. This prints figures and is
// not a test; `tests/browser/run --figures` starts it.
import { Session, launch } from "./browser.mjs";
import { memory } from "./memory.mjs";
import { LETTERS, World, until } from "./world.mjs";

const TIMES = 10;
const EVENTS = 1_000_000;
const DELIVERIES = 100_000;
const UPDATES = 10_000;
const TOPICS = 5;
const SUBSCRIPTIONS_OF_EACH = 100;

/** Events of a publish, and publishes at the same time. */
const AT_ONCE = 2_000;
const PUBLISHERS = 4;

/** Hours of history pass in minutes. */
const FAST = 600;

const BIG = "/topics/big/subscriptions/one";
const PAGES = ["/", "/?since=7d", "/topics", "/topics/big", "/topics/t-0", BIG, `${BIG}/deliveries`, "delivery", `${BIG}/retry`,
  `${BIG}/filter`, `${BIG}/edit`, `${BIG}/dead-letters`, "/dead-letters", "/events", "/events?topic=t-0&id=m-0", "/waiting", "/tail",
  "/ledger", "/ledger?since=7d", "/cost"];

/** Copies the state of one delivery that has failed: each copy waits like it. */
const COPIES = `
import json, sqlite3, sys, uuid
with sqlite3.connect(sys.argv[1]) as database:
    state = database.execute("SELECT * FROM states WHERE waiting_for IS NOT NULL").fetchone()
    old = str(uuid.UUID(bytes=state[0]))
    for at in range(json.loads(sys.argv[2])):
        made = uuid.uuid4()
        new = lambda text: text.replace(old, str(made))
        database.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?)",
            (made.bytes, *state[1:4], new(state[4]), new(state[5])))
`;

const median = (all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)];

/** One look at a page: when the server began to answer, when the first text was painted, when all was there, what was
 * loaded. */
async function look(page, path) {
  await page.goto(path);
  return await page.evaluate(() => new Promise((done) => {
    new PerformanceObserver((list) => {
      const paint = list.getEntriesByName("first-contentful-paint")[0];
      if (!paint) return;
      const [page] = performance.getEntriesByType("navigation");
      const all = [page, ...performance.getEntriesByType("resource")];
      const bytes = all.reduce((sum, one) => sum + one.transferSize, 0);
      const { requestStart, responseStart, responseEnd } = page;
      done({ server: responseStart - requestStart, paint: paint.startTime, whole: responseEnd - requestStart, bytes });
    }).observe({ type: "paint", buffered: true });
  }));
}

async function measure(browser, world, title) {
  const session = await Session.open(browser, await world.console());
  await session.go(`${BIG}/deliveries`);
  const delivery = await session.page.locator(`main td a[href^="${BIG}/deliveries/"]`).first().getAttribute("href");
  console.log(`\n${title}; medians of ${TIMES}\n\n| page | server, ms | first paint, ms | all of it, ms | KB with all that it loads |\n|---|---|---|---|---|`);
  for (const path of PAGES) {
    const looks = [];
    // A page this slow is measured only once.
    while (looks.length < TIMES && !(looks[0]?.whole > 5_000)) {
      looks.push(await look(session.page, path === "delivery" ? delivery : path));
    }
    const of = (name) => median(looks.map((one) => one[name]));
    console.log(`| \`${path}\` | ${of("server").toFixed(0)} | ${of("paint").toFixed(0)} | ${of("whole").toFixed(0)} | ${(of("bytes") / 1000).toFixed(0)} |`);
  }
  const { before, after, seconds } = await memory(session, "/", UPDATES);
  const told = ({ bytes, nodes, listeners }) => `${(bytes / 1e6).toFixed(2)} MB, ${nodes} nodes, ${listeners} listeners`;
  console.log(`\nthe overview before ${UPDATES} updates: ${told(before)}; after them, ${seconds.toFixed(0)} s later: ${told(after)}`);
  await session.context.close();
}

/** A topic whose endpoint fails; the first attempts are made, and the rest waits. */
async function failing(world, events) {
  await world.topic("big", { one: { status: 503, retryPolicy: { schedule: [850] }, ...LETTERS } });
  for (let sent = 0; sent < events; sent += AT_ONCE) {
    const count = Math.min(AT_ONCE, events - sent);
    await world.publish("big", ...Array.from({ length: count }, (_, at) => ({ id: `big-${sent + at}` })));
  }
  await until("a failure", async () => (await health(world)).waitingDeliveries.count > 0);
}

const health = async (world) => await world.manage("GET", `${BIG.replace("subscriptions", "eventSubscriptions")}/health`);

/** A million events, each for one of the event subscriptions. */
async function fill(world) {
  const batches = { maxEventsPerBatch: 5_000, preferredBatchSizeInKilobytes: 1_024 };
  for (let topic = 0; topic < TOPICS; topic += 1) {
    const one = (at) => [`s-${at}`, { destination: world.destination("/fine", batches), filter: { includedEventTypes: [`Kind-${at}`] } }];
    await world.topic(`t-${topic}`, Object.fromEntries(Array.from({ length: SUBSCRIPTIONS_OF_EACH }, (_, at) => one(at))));
  }
  let delivered = 0;
  world.endpoints.answers.set("/fine", (_, events) => { delivered += events.length; return { status: 200 }; });
  let next = 0;
  const began = Date.now();
  await Promise.all(Array.from({ length: PUBLISHERS }, async () => {
    while (next < EVENTS) {
      const first = next;
      next += AT_ONCE;
      const events = Array.from({ length: AT_ONCE }, (_, at) => ({ id: `m-${first + at}`, eventType: `Kind-${at % SUBSCRIPTIONS_OF_EACH}` }));
      await world.publish(`t-${(first / AT_ONCE) % TOPICS}`, ...events);
      world.endpoints.received.length = 0;
    }
  }));
  while (delivered < EVENTS) {
    const before = delivered;
    await until(() => `more than ${before} deliveries`, () => delivered > before);
  }
  console.log(`\n${EVENTS} events were published and delivered in ${((Date.now() - began) / 1_000).toFixed(0)} s`);
}

const browser = await launch();
const small = await World.open({ speed: 1, kept: true });
await failing(small, 1);
await measure(browser, small, "one waiting delivery, one event subscription");
await small.close();

const world = await World.open({ speed: FAST, kept: true });
await fill(world);
await world.pace(1);
await failing(world, DELIVERIES);
const { waitingDeliveries: { count } } = await health(world);
await world.rewrite(COPIES, DELIVERIES - count);
const { waitingDeliveries, waitingEvents } = await health(world);
console.log(`\nthe health says that ${waitingEvents} events wait, and ${waitingDeliveries.count} deliveries have failed`);
await measure(browser, world, `${EVENTS} events, ${DELIVERIES} waiting deliveries, ${TOPICS * SUBSCRIPTIONS_OF_EACH + 1} event subscriptions`);
await browser.close();
await world.close();
process.exit(0);
