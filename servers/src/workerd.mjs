// Runs a Worker under workerd, on a port of its own, until the input ends.
//
// node start.mjs FOLDER STORAGE VARIABLES: the folder has `worker.js` and `worker_bg.wasm` from wasm-bindgen for the web.
// The storage is the folder of the objects, and the variables are a JSON object.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.TIDEGATE_MINIFLARE, "package.json"));
const { Miniflare } = require("miniflare");

const [folder, storage, variables] = process.argv.slice(2);

// The entry that the platform's own tools write for a Worker in Rust.
const entry = `
import { initSync, fetch, RateLimiter } from "./worker.js";
import wasm from "./worker_bg.wasm";
initSync({ module: wasm });
export { RateLimiter };
export default { fetch };
`;

const modules = [{ type: "ESModule", path: join(folder, "entry.js"), contents: entry }];
const add = (place) => {
  for (const name of readdirSync(place)) {
    const path = join(place, name);
    if (statSync(path).isDirectory()) add(path);
    else if (name.endsWith(".js")) modules.push({ type: "ESModule", path, contents: readFileSync(path, "utf8") });
    else if (name.endsWith(".wasm")) modules.push({ type: "CompiledWasm", path, contents: readFileSync(path) });
  }
};
add(folder);

const miniflare = new Miniflare({
  modules,
  modulesRoot: folder,
  compatibilityDate: "2026-01-01",
  host: "127.0.0.1",
  port: 0,
  cf: false,
  telemetry: { enabled: false },
  durableObjects: { TIDEGATE: { className: "RateLimiter", useSQLite: true } },
  durableObjectsPersist: storage,
  bindings: JSON.parse(variables),
});
const url = await miniflare.ready;
console.log(`serving ${url.origin}`);
process.stdin.resume();
process.stdin.on("end", async () => {
  await miniflare.dispose();
  process.exit(0);
});
