/**
 * Bundles front/src into one script, src/regard/views/page/front.js, which the Python package ships.
 *
 * With --check nothing is written: it fails if the shipped script differs from what the source builds. Styles are bundled
 * as text, and the script must not contain anything that would end the <script> element that it stands in.
 */
import { readFile, writeFile } from "node:fs/promises";
import { build, transform } from "esbuild";

const target = ["chrome105", "firefox113", "safari16.4"];
const place = new URL("../src/regard/views/page/front.js", import.meta.url);

const styles = {
  name: "styles as text",
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf-8"), { loader: "css", minify: true, target });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

const { outputFiles } = await build({
  entryPoints: ["src/main.ts"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "regard",
  legalComments: "none",
  target,
  plugins: [styles],
  write: false,
  logLevel: "warning",
});
const { text } = outputFiles[0];
for (const end of ["</script", "<!--", "\r"]) {
  if (text.includes(end)) throw new Error(`the bundle contains ${JSON.stringify(end)}, which would end its script element`);
}
if (process.argv.includes("--check")) {
  const built = await readFile(place, "utf-8").catch(() => "");
  if (built !== text) {
    console.error("src/regard/views/page/front.js is not what front/ builds; run: make front");
    process.exit(1);
  }
} else {
  await writeFile(place, text);
  console.log(`front.js: ${text.length} characters`);
}
