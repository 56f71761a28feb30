// One formula per line of standard input, one answer per line of standard output, in order.
//
//   {"id": 1, "tex": "\\sqrt{2}", "display": false}
//   {"id": 1, "html": "<mjx-container …>", "css": ["1mjx-msqrt{…}", …]}
//   {"id": 2, "error": "Undefined control sequence \\foo", "offset": 4}
//
// The first line may set macros for the whole run: {"macros": {"R": "\\mathbb{R}"}}.

import { createInterface } from "node:readline";
import { setFlagsFromString } from "node:v8";

// A build sets a thousand formulas and is done. To optimize code that early costs more than it saves:
// a function now has to run much longer before V8 thinks of it. This holds for modules loaded later.
setFlagsFromString("--interrupt-budget=3000000");
const { typesetter } = await import("./typeset.mjs");

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
let settings = null;
let typeset = null;

for await (const line of lines) {
  const { id, macros, tex, display } = JSON.parse(line);
  settings ??= macros ?? {};
  if (tex === undefined) continue;
  typeset ??= typesetter(settings);
  const { broken, ...answer } = await typeset(tex, display);
  // What a failure inside MathJax leaves behind must not reach the next formula.
  if (broken) typeset = null;
  if (!process.stdout.write(JSON.stringify({ id, ...answer }) + "\n")) {
    await new Promise((resolve) => process.stdout.once("drain", resolve));
  }
}
