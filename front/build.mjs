/** Bundle the front end into the package; with --check, only say whether the built file is this. */
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
  if (text.includes(end)) throw new Error(`the page would end at ${JSON.stringify(end)}`);
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
