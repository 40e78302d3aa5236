// How fast pages are: medians of ten, with a nearly empty deployment, and with 100,000 waiting deliveries and 500 event
// subscriptions. This prints figures and is not a test; `tests/browser/run --figures` starts it.
import { Session, launch } from "./browser.mjs";
import { LETTERS, World } from "./world.mjs";

const TIMES = 10;
const DELIVERIES = 100_000;
const TOPICS = 5;
const SUBSCRIPTIONS_OF_EACH = 100;

const BIG = "/topics/big/subscriptions/one";
const PAGES = ["/", "/topics", "/topics/big", BIG, `${BIG}/deliveries`, `${BIG}/retry`, `${BIG}/filter`, `${BIG}/edit`,
  `${BIG}/dead-letters`, "/dead-letters", "/events", "/waiting", "/tail", "/ledger", "/cost"];

/** Copies the one waiting delivery many times: its state, and its message in the queue. */
const COPIES = `
import json, sqlite3, sys, uuid
with sqlite3.connect(sys.argv[1]) as database:
    state = database.execute("SELECT * FROM states").fetchone()
    message = database.execute("SELECT * FROM messages WHERE body LIKE '%' || ? || '%'", (str(uuid.UUID(bytes=state[0])),)).fetchone()
    old, newest = str(uuid.UUID(bytes=state[0])), message[0]
    for at in range(json.loads(sys.argv[2]) - 1):
        made = uuid.uuid4()
        new = lambda text: text.replace(old, str(made))
        database.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?)",
            (made.bytes, *state[1:4], new(state[4]), new(state[5])))
        database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (newest + 1 + at, *message[1:7], new(message[7])))
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
  console.log(`\n${title}; medians of ${TIMES}\n\n| page | server, ms | first paint, ms | all of it, ms | KB with all that it loads |\n|---|---|---|---|---|`);
  for (const path of PAGES) {
    const looks = [];
    // A page this slow is measured only once.
    while (looks.length < TIMES && !(looks[0]?.whole > 5_000)) looks.push(await look(session.page, path));
    const of = (name) => median(looks.map((one) => one[name]));
    console.log(`| \`${path}\` | ${of("server").toFixed(0)} | ${of("paint").toFixed(0)} | ${of("whole").toFixed(0)} | ${(of("bytes") / 1000).toFixed(0)} |`);
  }
  await session.close();
}

const world = await World.open({ speed: 1, kept: true });
const browser = await launch();
await world.topic("big", { one: { status: 503, retryPolicy: { schedule: [850] }, ...LETTERS } });
await world.publish("big", { id: "big-1" });
const count = async () => (await world.manage("GET", "/topics/big/eventSubscriptions/one/health")).waitingDeliveries.count;
while ((await count()) < 1) await new Promise((done) => setTimeout(done, 100));
await measure(browser, world, "one waiting delivery, one event subscription");

for (let topic = 0; topic < TOPICS; topic += 1) {
  const names = Array.from({ length: SUBSCRIPTIONS_OF_EACH }, (_, at) => [`s-${at}`, { path: "/fine" }]);
  await world.topic(`t-${topic}`, Object.fromEntries(names));
}
await world.rewrite(COPIES, DELIVERIES);
console.log(`\nthe health says that ${await count()} wait`);
await measure(browser, world, `${DELIVERIES} waiting deliveries, ${TOPICS * SUBSCRIPTIONS_OF_EACH + 1} event subscriptions`);
await browser.close();
await world.close();
process.exit(0);
