/**
 * Runs the code of the README and the recipes. Each block under a `file` comment is run without changes, on a server of
 * its own, and must print the block that follows. `README_FOLDER`: the folder in which the package is installed; by
 * default the folder of the tests. `DOCS`: the folder of the documentation.
 */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, Server } from "./support/server.js";
import { until } from "./support/until.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = process.env["README_FOLDER"] ?? join(root, "build/readme");
const recipes = join(process.env["DOCS"] ?? join(root, "../../docs"), "recipes");

interface Program {
  readonly file: string;
  code: string;
  printed: string;
  /** Whether the program runs until the test ends it. */
  endsBySignal: boolean;
}

function programs(text: string): Program[] {
  const found: Program[] = [];
  const parts = text.matchAll(/^<!-- (?:file: (\S+)|(and)|(SIGTERM)) -->$|^```(\w*)\n([^]*?)^```$/gm);
  let takesCode = false;
  let takesOutput = false;
  for (const [, file, and, signal, language, content = ""] of parts) {
    const last = found.at(-1);
    if (file) found.push({ file, code: "", printed: "", endsBySignal: false });
    if (file || and) takesCode = true;
    else if (signal && last) last.endsBySignal = true;
    else if (language === "js") {
      if (takesCode && last) last.code += content;
      takesOutput = takesCode;
      takesCode = false;
    } else if (language === "" && takesOutput && last) {
      last.printed = content;
      takesOutput = false;
    }
  }
  return found;
}

const readme = programs(readFileSync(join(root, "README.md"), "utf8"));
assert.ok(readme.length >= 5, "the README has programs");
const pages = readdirSync(recipes).filter((page) => page.endsWith(".md"));
const cooked = pages.flatMap((page) => programs(readFileSync(join(recipes, page), "utf8")));
assert.ok(cooked.length >= 2, "the recipes have programs");

test("the programs of the README have types", { timeout: 300_000 }, () => {
  // The checker reads the programs as TypeScript, in the folder of the tests, where the types of all packages are.
  const sources = join(root, "build/readme-types");
  mkdirSync(sources, { recursive: true });
  const files = readme.map(({ file, code }) => {
    const path = join(sources, file.replace(/\.mjs$/, ".mts"));
    writeFileSync(path, code);
    return path;
  });
  const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2023", "--skipLibCheck", "--types", "node", "--ignoreConfig"];
  const { status, stdout } = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...options, ...files], { cwd: root, encoding: "utf8" });
  assert.equal(status, 0, stdout);
});

for (const { file, code, printed, endsBySignal } of [...readme, ...cooked]) {
  test(`${file} prints what it says`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, file), code);
    const env = { ...process.env, REDIS_URL: server.url, PORT: `${await freePort()}` };
    const child = spawn(process.execPath, [file], { cwd: folder, env });
    t.after(() => void child.kill("SIGKILL"));
    let output = "";
    child.stdout.on("data", (data: Buffer) => (output += data.toString()));
    child.stderr.on("data", (data: Buffer) => (output += data.toString()));
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    if (endsBySignal) {
      await until(`it prints ${printed}`, () => output === printed || child.exitCode !== null);
      child.kill("SIGTERM");
    }
    assert.equal(await ended, 0, output);
    assert.equal(output, printed);
  });
}
