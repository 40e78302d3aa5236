// Shows the estate: `keep` makes one and keeps it until it is ended; `look FOLDER [WORD]` makes pictures of one, or of the
// one in GRIDPOST_ESTATE. `tests/browser/run` starts it.
import { launch } from "./browser.mjs";
import { Estate } from "./estate.mjs";
import { pictures } from "./pictures.mjs";
import { World } from "./world.mjs";

async function keep() {
  const { world } = await Estate.open();
  const { signInUrl } = await world.console();
  console.log(`the estate is there: ${signInUrl}`);
  console.log(`GRIDPOST_ESTATE=${world.folder} tests/browser/run --look FOLDER [WORD] makes pictures of it`);
}

async function look(folder, word) {
  const kept = process.env.GRIDPOST_ESTATE;
  const estate = kept ? null : await Estate.open();
  const world = estate?.world ?? World.of(kept);
  const browser = await launch();
  const wrong = await pictures(browser, world, folder, word);
  await browser.close();
  await estate?.close();
  for (const one of wrong) console.error(one);
  process.exit(wrong.length ? 1 : 0);
}

const [, , what, ...rest] = process.argv;
await (what === "keep" ? keep() : look(...rest));
