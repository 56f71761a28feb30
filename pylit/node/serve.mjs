// One formula per line of standard input, one answer per line of standard output, in order.
//
//   ["\\sqrt{2}", false]     TeX, and whether it is displayed
//   {"html": "<mjx-container …>", "css": ["1mjx-msqrt{…}", …]}
//   {"error": "Undefined control sequence \\foo", "offset": 4}

import { createInterface } from "node:readline";
import { setFlagsFromString } from "node:v8";

// A build sets a thousand formulas and is done. To optimize code that early costs more than it saves:
// a function now has to run much longer before V8 thinks of it. This holds for modules loaded later.
setFlagsFromString("--interrupt-budget=3000000");
const { typesetter } = await import("./typeset.mjs");

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
let typeset = null;

for await (const line of lines) {
  typeset ??= typesetter();
  const { broken, ...answer } = await typeset(...JSON.parse(line));
  // What a failure inside MathJax leaves behind must not reach the next formula.
  if (broken) typeset = null;
  if (!process.stdout.write(JSON.stringify(answer) + "\n")) {
    await new Promise((resolve) => process.stdout.once("drain", resolve));
  }
}
