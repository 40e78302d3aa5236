// What a screen reader is given of a page: the browser's accessibility tree, and what must hold of it.
import assert from "node:assert/strict";

/** Landmarks that a page may have several of: each needs a name of its own. */
const NAMED = ["navigation", "region", "complementary", "search"];

const name = (node) => (node.name?.value ?? "").trim();
const property = (node, wanted) => node.properties?.find((one) => one.name === wanted)?.value.value;

/** What is wrong with the nodes of a tree, each as a sentence. */
export function wrongs(nodes) {
  const all = nodes.filter((node) => !node.ignored);
  const of = (...roles) => all.filter((node) => roles.includes(node.role?.value));
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const within = (node, role) => {
    for (let at = byId.get(node.parentId); at; at = byId.get(at.parentId)) if (at.role?.value === role) return true;
    return false;
  };
  const below = (node, role) => of(role).filter((one) => {
    for (let at = one; at; at = byId.get(at.parentId)) if (at === node) return true;
    return false;
  });
  const found = [];
  const unless = (holds, told) => { if (!holds) found.push(told); };

  for (const role of ["main", "banner"]) unless(of(role).length === 1, `${of(role).length} landmarks are ${role}`);
  unless(of("navigation").length > 0, "no landmark is navigation");
  for (const role of NAMED) {
    const names = of(role).map(name);
    unless(!names.includes(""), `a ${role} has no name`);
    unless(new Set(names).size === names.length, `${role}s have the same name: ${names.join(", ")}`);
  }
  unless(name(of("RootWebArea")[0] ?? {}) !== "", "the page has no title");

  const headings = of("heading").map((node) => ({ node, level: Number(property(node, "level")) }));
  const first = headings.filter(({ level }) => level === 1);
  unless(first.length === 1, `${first.length} headings are of the first level`);
  unless(first.every(({ node }) => within(node, "main")), "the first heading is not in main");
  headings.reduce((above, { node, level }) => {
    unless(level <= above + 1, `the heading "${name(node)}" of level ${level} comes after one of level ${above}`);
    return level;
  }, 0);
  unless(headings.every(({ node }) => name(node) !== ""), "a heading has no text");

  for (const table of of("table")) {
    const columns = below(table, "columnheader");
    unless(name(table) !== "", "a table has no caption");
    unless(columns.length > 0, `the table "${name(table)}" has no headers of columns`);
    unless(columns.every((column) => name(column) !== ""), `a column of the table "${name(table)}" has no header`);
  }
  for (const node of of("status", "alert")) {
    unless(["polite", "assertive"].includes(property(node, "live")), `a ${node.role.value} is in no live region`);
  }
  for (const node of of("image", "img")) unless(name(node) !== "", "a picture has no name");
  return found;
}

/** Nothing is wrong with the tree of the page as it stands; what tells of a success or a problem is told aloud. */
export async function structured(page) {
  const protocol = await page.context().newCDPSession(page);
  const { nodes } = await protocol.send("Accessibility.getFullAXTree");
  await protocol.detach();
  assert.deepEqual(wrongs(nodes), [], page.url());
  const silent = await page.evaluate(() => [...document.querySelectorAll("main .done, main .problem")]
    .filter((one) => !["status", "alert", "note"].includes(one.getAttribute("role"))).map((one) => one.outerHTML.slice(0, 120)));
  assert.deepEqual(silent, [], `${page.url()}: told by colour alone`);
  // What has no name is no landmark, and what has no headers may be no table: then they are not in the tree.
  const nameless = await page.evaluate(() => [
    ...document.querySelectorAll("[role=region]:not([aria-label], [aria-labelledby])"),
    ...document.querySelectorAll("table:not(:has(caption)), table:not(:has(thead th[scope=col]))"),
  ].map((one) => one.outerHTML.slice(0, 120)));
  assert.deepEqual(nameless, [], `${page.url()}: without a name, or headers`);
  await withIds(page);
}

/** No id is there twice, and a part that comes anew has no field: what was typed would be gone. */
async function withIds(page) {
  const [twice, lost] = await page.evaluate(() => {
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    const fields = "input:not([type=hidden]), select, textarea";
    const lost = [...document.querySelectorAll("[data-part]")].flatMap((part) => [...part.querySelectorAll(fields)]);
    return [ids.filter((id, index) => ids.indexOf(id) !== index), lost.map((one) => one.outerHTML.slice(0, 120))];
  });
  assert.deepEqual([twice, lost], [[], []], `${page.url()}: ids that are there twice, and fields in a part that comes anew`);
}

/** A page with everything wrong, and what is to be found. */
const WRONG = `<!doctype html><title></title><nav><h3>Deep</h3></nav><nav></nav><div role="region" aria-label="Same">x</div>
  <div role="region" aria-label="Same">y</div><table role="table"><tr><td>1</td></tr></table>
  <main><h1>One</h1><h1></h1><table><caption>Sizes</caption><tr><th></th></tr><tr><td>1</td></tr></table></main>
  <div role="status" aria-live="off">done</div><svg role="img"></svg>`;

/** The check finds what it is there for. */
export async function findsWrongs(browser) {
  const page = await browser.newPage();
  await page.setContent(WRONG);
  const protocol = await page.context().newCDPSession(page);
  const { nodes } = await protocol.send("Accessibility.getFullAXTree");
  await page.close();
  const found = wrongs(nodes).join("; ");
  for (const part of ["0 landmarks are banner", "a navigation has no name", "navigations have the same name",
    "regions have the same name: Same, Same", "the page has no title", "2 headings are of the first level", "of level 3 comes after",
    "a heading has no text", "a table has no caption", "no headers of columns", "in no live region", "a picture has no name"]) {
    assert.ok(found.includes(part), `"${part}" is not in: ${found}`);
  }
}
