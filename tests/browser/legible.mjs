// What a reader sees: whole words, times that need no decoding, and a page that is no wider than its screen.
import assert from "node:assert/strict";

/** The longest word of what is code that must stay whole, in characters: a secret is longer. */
const WORD_MAX = 30;

/** Finds, in the page, what is hard to read as it is laid out now. */
function wrongs(longest) {
  const found = [];
  const style = (element) => getComputedStyle(element);
  const shown = (element) => element.checkVisibility({ visibilityProperty: true })
    && !element.closest(".vh, caption, .skip:not(:focus), script, style, textarea, select");
  const drawn = [];
  const line = document.querySelector("main").clientWidth - 28;
  const range = document.createRange();
  const box = (element) => style(element).display.startsWith("inline") ? box(element.parentElement) : element;
  const isCut = (element) => element !== document.body && (style(element).overflowX !== "visible" || isCut(element.parentElement));
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!shown(text.parentElement)) continue;
    range.selectNodeContents(text);
    if (text.data.trim()) drawn.push(...[...range.getClientRects()].map((rect) => ({ text, rect })));
    const around = box(text.parentElement);
    const sticks = range.getBoundingClientRect().right - around.getBoundingClientRect().right;
    if (sticks > 1 && text.data.trim() && !text.parentElement.closest("svg, .plot") && !isCut(around)) {
      found.push(`a text that sticks out of its <${around.localName}> by ${Math.ceil(sticks)} pixels: ${text.data.trim().slice(0, 80)}`);
    }
    const isRaw = text.parentElement.closest("pre, code");
    if (/(?<!such as )\d{4}-\d\d-\d\dT/.test(text.data) && !isRaw) found.push(`a time for machines: ${text.data}`);
    // A secret has no words.
    if (text.parentElement.closest("pre") || (isRaw && text.data.length > longest)) continue;
    for (const { 0: word, index } of text.data.matchAll(/[\p{L}\p{N}_]{2,}/gu)) {
      if (/^[0-9a-f]{20,}$/.test(word)) continue;
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const parts = [...range.getClientRects()].filter((part) => part.width > 0);
      const lines = parts.filter((part) => Math.abs(part.top - parts[0].top) > parts[0].height / 2);
      const width = parts.reduce((sum, part) => sum + part.width, 0);
      if (lines.length && width < line) found.push(`a word in two lines: ${word} of <${text.parentElement.localName}> ${text.data.trim().slice(0, 80)}`);
    }
  }
  const seen = [];
  const clip = (rect, element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (style(at).overflowX === "visible" || style(at).display === "inline") continue;
      const { left, right, top, bottom } = at.getBoundingClientRect();
      rect = { left: Math.max(rect.left, left), right: Math.min(rect.right, right), top: Math.max(rect.top, top), bottom: Math.min(rect.bottom, bottom) };
    }
    return rect;
  };
  const floats = (element) => element !== document.body && (["fixed", "sticky", "absolute"].includes(style(element).position) || floats(element.parentElement));
  for (const { text, rect } of drawn) {
    if (floats(text.parentElement)) continue;
    const here = clip(rect, text.parentElement);
    if (here.right - here.left < 3 || here.bottom - here.top < 3) continue;
    for (const other of seen) {
      const wide = Math.min(here.right, other.here.right) - Math.max(here.left, other.here.left);
      const high = Math.min(here.bottom, other.here.bottom) - Math.max(here.top, other.here.top);
      if (other.text !== text && wide > 2 && high > 4) found.push(`texts that cross: ${text.data.trim().slice(0, 40)} and ${other.text.data.trim().slice(0, 40)}`);
    }
    seen.push({ text, here });
  }
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) {
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() && !one.closest(".scroll")
      && one.getBoundingClientRect().right > innerWidth + 1);
    found.push(`${over} pixels too wide: ${wide.slice(-2).map((one) => one.outerHTML.slice(0, 100)).join(" and ")}`);
  }
  return [...new Set(found)];
}

/** Checks a page as it is laid out now. */
export async function legible(page) {
  assert.deepEqual(await page.evaluate(wrongs, WORD_MAX), [], `${page.url()}, ${page.viewportSize().width} pixels`);
}

/** A page with all of it wrong, and what is to be found. */
const WRONG = `<!doctype html><main><p style="width: 3rem; overflow-wrap: anywhere">irresponsibly</p>
  <p>since 2026-11-28T13:58:12Z</p><p style="width: 3rem; white-space: nowrap">too long for it</p><p style="width: 200rem">wide</p><p style="width: 8rem">a-b irresponsibly<wbr>split</p></main>`;

/** The check finds what it is there for. */
export async function findsIllegible(browser) {
  const page = await browser.newPage();
  await page.setContent(WRONG);
  const found = await page.evaluate(wrongs, WORD_MAX);
  await page.close();
  assert.equal(found.length, 4, found.join("; "));
  for (const part of ["a text that sticks out of its <p>", "a time for machines: since", "a word in two lines: irresponsibly of <p> irresponsibly", "pixels too wide"]) {
    assert.ok(found.some((one) => one.startsWith(part) || one.includes(part)), `"${part}" is not in: ${found.join("; ")}`);
  }
}
