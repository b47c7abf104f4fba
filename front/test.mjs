/** Bundles the tests with esbuild, because node cannot run TypeScript, and runs them. */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { build } from "esbuild";

await build({
  entryPoints: ["tests/vectors.test.ts"],
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: ".tests",
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
const ran = spawnSync(process.execPath, ["--test", ".tests/"], { stdio: "inherit" });
rmSync(".tests", { recursive: true });
process.exit(ran.status ?? 1);
