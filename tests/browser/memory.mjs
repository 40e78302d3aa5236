// What a page that is looked at for long keeps in memory.
import { driven } from "./stream.mjs";

/** Bytes of the script's heap, nodes and listeners of the page, without garbage. */
async function kept(protocol) {
  for (let one = 0; one < 3; one += 1) await protocol.send("HeapProfiler.collectGarbage");
  const { usedSize: bytes } = await protocol.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners: listeners } = await protocol.send("Memory.getDOMCounters");
  return { bytes, nodes, listeners };
}

/** Sends so many parts to the page, each another one, and lets it draw between them; one box is open, a link has the focus. */
async function update(updates) {
  const parts = [...document.querySelectorAll("[data-part]")].map((part) => part.outerHTML);
  document.querySelector("[data-part] details")?.toggleAttribute("open", true);
  document.querySelector("[data-part] a[href]")?.focus();
  const stream = window.streams[0];
  for (let at = 0; at < updates; at += 1) {
    const html = parts[at % parts.length];
    if (at % parts.length === 0) stream.tell("now", String(Date.now() + at));
    stream.tell("part", JSON.stringify(html.replace(/<\/div>$/, `<p class="m">${at}</p></div>`)));
    if (at % 20 === 0) await new Promise((done) => requestAnimationFrame(done));
  }
}

/** Returns what a page keeps in memory before and after so many updates. */
export async function memory(session, path, updates) {
  const page = await driven(session, path);
  const protocol = await session.context.newCDPSession(page);
  await protocol.send("HeapProfiler.enable");
  // The first ones have code compiled, and caches filled.
  await page.evaluate(update, 100);
  const before = await kept(protocol);
  const began = Date.now();
  await page.evaluate(update, updates);
  const seconds = (Date.now() - began) / 1_000;
  const after = await kept(protocol);
  await protocol.detach();
  return { before, after, seconds };
}
