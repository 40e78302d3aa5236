// A deployment as one would find it: four topics, thirteen event subscriptions, hours of history, and six endpoints in
// trouble. Pictures are made of it.
import { LETTERS, World, event, until } from "./world.mjs";

const MINUTE = 60_000;

/** Events of each topic in ten minutes of the clock. */
const RATES = { orders: 30, inventory: 10, payments: 15 };

/** The clock's speeds: hours of history, then half an hour of trouble, then as it is. */
const PAST = { speed: 600, minutes: 330 };
const TROUBLE = { speed: 60, minutes: 30 };

/** Before the end of the history, `crm` begins to fail. */
const CRM_MINUTES = 65;

/** The same numbers each time. */
function random(seed) {
  let state = seed;
  return () => (state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296) / 4_294_967_296;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** What each topic's events are made of: types with their shares, and an event's id, subject and data. */
const KINDS = {
  orders: {
    types: [["Order.Placed", 0.34], ["Order.Paid", 0.27], ["Order.Shipped", 0.21], ["Order.Refunded", 0.18]],
    first: 48_213,
    make: (no, word, dice) => {
      const total = Math.round(dice() * 30_000) / 100;
      const country = ["FR", "DE", "SE", "NO", "IT"][Math.floor(dice() * 5)];
      const customer = { id: `cus_${Math.floor(dice() * 900_000) + 100_000}`, country };
      const data = { orderId: no, total, currency: "EUR", customer, items: Math.ceil(dice() * 5) };
      return { id: `order-${no}-${word}`, subject: `orders/${no}`, data };
    },
  },
  inventory: {
    types: [["Stock.Changed", 0.82], ["Stock.Low", 0.18]],
    first: 9_120,
    make: (no, word, dice) => {
      const sku = `SKU-${1000 + Math.floor(dice() * 400)}`;
      return { id: `stock-${no}-${word}`, subject: `stock/${sku}`, data: { sku, left: Math.floor(dice() * 50) } };
    },
  },
  payments: {
    types: [["Payment.Captured", 0.62], ["Payment.Authorized", 0.36], ["Payment.ChargedBack", 0.02]],
    first: 77_400,
    make: (no, word, dice) => {
      const data = { paymentId: no, amount: Math.round(dice() * 30_000) / 100, currency: "EUR" };
      return { id: `payment-${no}-${word}`, subject: `payments/${no}`, data };
    },
  },
};

const atLeast = (key, value) => ({ advancedFilters: [{ operatorType: "NumberGreaterThan", key, value }] });
const types = (...includedEventTypes) => ({ includedEventTypes });

/** The deployment, and what is wrong with its endpoints by now. */
export class Estate {
  crmFails = false;
  billingKeyIsOld = false;
  fraudIsDown = false;
  mailTakesMs = 0;
  searchIsBusy = false;
  /** What `tax` has refused once: it takes it when it comes again. */
  refused = new Set();

  static async open() {
    const estate = new Estate();
    estate.dice = random(42);
    estate.next = Object.fromEntries(Object.entries(KINDS).map(([topic, { first }]) => [topic, first]));
    estate.owed = Object.fromEntries(Object.keys(KINDS).map((topic) => [topic, 0]));
    estate.world = await World.open({ speed: PAST.speed, kept: true });
    estate.startsAt(Date.now(), PAST.speed);
    await estate.#make();
    await estate.#live();
    estate.#goOn();
    return estate;
  }

  startsAt(time, speed) {
    this.clock = { time, speed, real: Date.now() };
  }

  /** The clock's time, about. */
  now() {
    return this.clock.time + (Date.now() - this.clock.real) * this.clock.speed;
  }

  async #make() {
    const { world } = this;
    const key = { name: "x-api-key", type: "Static", properties: { value: "k-2026", isSecret: true } };
    const billing = world.destination("/billing/hooks/orders", { deliveryAttributeMappings: [key] });
    await world.topic("orders", {
      billing: { destination: billing, filter: types("Order.Placed", "Order.Paid"), labels: ["finance"], ...LETTERS },
      crm: { path: "/crm/api/v2/sync", ...LETTERS },
      fraud: { path: "/fraud/score", filter: atLeast("data.total", 200), ...LETTERS },
      "legacy-erp": { path: "/erp-old/in", labels: ["to be removed"], ...LETTERS },
      mail: { path: "/mail/send", filter: types("Order.Placed", "Order.Shipped"), ...LETTERS },
      "search-index": { path: "/search/ingest", ...LETTERS },
      tax: { path: "/tax/v1/events", filter: types("Order.Paid"), ...LETTERS },
      warehouse: { path: "/wms/gridpost", signing: { scheme: "StandardWebhooks" }, ...LETTERS },
    });
    await world.topic("inventory", {
      replenish: { path: "/purchase/replenish", filter: types("Stock.Low"), ...LETTERS },
      "stock-sync": { path: "/stock/hook", ...LETTERS },
    });
    await world.topic("payments", {
      bookkeeping: { path: "/books/in", ...LETTERS },
      chargebacks: { path: "/risk/cb", filter: types("Payment.ChargedBack") },
      receipts: { path: "/mail/receipts", filter: types("Payment.Captured"), ...LETTERS },
    });
    await world.topic("returns");
    const text = (status, text) => ({ status, text });
    const { answers } = world.endpoints;
    answers.set("/billing/hooks/orders", () => this.billingKeyIsOld ? text(401, "API key expired") : text(200));
    answers.set("/crm/api/v2/sync", () => this.crmFails ? text(500, "NullPointerException at com.acme.crm.Sync.run") : text(200));
    answers.set("/fraud/score", () => this.fraudIsDown ? text(503, "scoring is overloaded") : text(200));
    answers.set("/search/ingest", () => this.searchIsBusy && this.dice() < 0.5 ? text(429, "too many requests") : text(200));
    answers.set("/mail/send", async () => { await pause(this.mailTakesMs * (0.5 + this.dice())); return text(200); });
    answers.set("/tax/v1/events", (_, [one]) => {
      if (this.refused.has(one.id)) return text(200);
      if (this.dice() > 0.12) return text(200);
      this.refused.add(one.id);
      return text(400, "field `amount` must be a number");
    });
    answers.set("/risk/cb", () => this.dice() < 0.3 ? text(400, "unknown case") : text(200));
  }

  /** Publishes what came in some minutes of the clock. */
  async publish(minutes) {
    const hour = (this.now() / MINUTE / 60) % 24;
    for (const [topic, rate] of Object.entries(RATES)) {
      this.owed[topic] += minutes / 10 * rate * (1 + 0.2 * Math.sin(hour) + 0.3 * (this.dice() - 0.5));
      const count = Math.floor(this.owed[topic]);
      this.owed[topic] -= count;
      if (count) await this.world.publish(topic, ...Array.from({ length: count }, () => this.#event(topic)));
    }
  }

  #event(topic) {
    const { types, make } = KINDS[topic];
    let left = this.dice();
    const [eventType] = types.find(([, share]) => (left -= share) < 0) ?? types[0];
    const no = this.next[topic]++;
    const eventTime = new Date(this.now()).toISOString();
    return event({ ...make(no, eventType.split(".")[1].toLowerCase(), this.dice), eventType, eventTime, dataVersion: "1.0" });
  }

  /** Publishes for so many minutes of the clock. */
  async #during(minutes) {
    const end = this.now() + minutes * MINUTE;
    for (let last = this.now(); last < end;) {
      await pause(200);
      const now = this.now();
      await this.publish((now - last) / MINUTE);
      last = now;
    }
  }

  async #live() {
    const { world } = this;
    await this.#during(60);
    this.searchIsBusy = true;
    await this.#during(40);
    this.searchIsBusy = false;
    await this.#during(PAST.minutes - 100 - CRM_MINUTES);
    this.crmFails = true;
    await this.#during(CRM_MINUTES);
    this.startsAt(this.now(), TROUBLE.speed);
    await world.pace(TROUBLE.speed);
    this.mailTakesMs = 1_200;
    this.billingKeyIsOld = true;
    await this.#during(TROUBLE.minutes * 0.1);
    await world.manage("POST", "/topics/orders/eventSubscriptions/legacy-erp/pause", { timeToLiveRuns: false });
    await this.#during(TROUBLE.minutes * 0.4);
    this.fraudIsDown = true;
    await this.#during(TROUBLE.minutes * 0.5);
    this.startsAt(this.now(), 1);
    await world.pace(1);
    // Each start makes them.
    for (const demo of ["demo", "demo-cloud"]) await world.manage("DELETE", `/topics/${demo}`);
    await world.manage("POST", "/topics/orders/eventSubscriptions/tax/deadLetters:redrive", { eventsPerSecond: 1 });
  }

  /** Life goes on, so that there is something to see in the live tail. */
  #goOn() {
    this.timer = setInterval(() => this.publish(0.1).catch(() => null), 1_000);
  }

  async close() {
    clearInterval(this.timer);
    await this.world.close();
  }
}
