// Where in a formula an error lies. MathJax says what is wrong; a writer also wants to know where.
//
// The parser works on a string and an index, but arguments and expanded macros are parsed as
// strings of their own. So every parser an error passes through leaves a trace, and the traces are
// read from the outermost to the innermost, each narrowing the place as far as it can.

import TexError from "@mathjax/src/js/input/tex/TexError.js";
import TexParser from "@mathjax/src/js/input/tex/TexParser.js";

const parse = TexParser.prototype.Parse;
const parseToken = TexParser.prototype.parse;

TexParser.prototype.parse = function (kind, input) {
  if (kind === "character") this.tokenStart = this.i - input[1].length;
  return parseToken.call(this, kind, input);
};

TexParser.prototype.Parse = function () {
  try {
    parse.call(this);
  } catch (error) {
    if (error instanceof TexError) {
      // What is left of the string tells the place even after a macro was expanded in front of it.
      const start = this.tokenStart ?? 0;
      (error.traces ??= []).unshift({ text: this.string, start });
    }
    throw error;
  }
};

// Offset of the fault in `source`, in UTF-16 units; 0 when nothing is known.
export function errorOffset(error, source) {
  if (error.id === "UndefinedControlSequence") {
    const found = commandOffset(error.message, source);
    if (found >= 0) return found;
  }
  // Spaces are left out of the comparison: the parser adds some of its own.
  const places = [...source.matchAll(/\S/g)].map((match) => match.index);
  const whole = dense(source);
  let offset = 0;
  for (const { text, start } of error.traces ?? []) {
    const inside = whole.indexOf(dense(text), offset);
    const rest = dense(text.slice(start));
    if (inside >= 0) offset = inside + dense(text.slice(0, start)).length;
    else if (rest && whole.endsWith(rest)) offset = whole.length - rest.length;
    else return places[callOffset(whole, dense(text))] ?? 0;
  }
  return places[offset] ?? 0;
}

const dense = (text) => text.replace(/\s+/g, "");

// An error inside what a macro stands for is placed at the macro's call: the last command before
// what the expanded string still has in common with the source.
function callOffset(whole, expanded) {
  let common = 0;
  while (common < expanded.length && whole.at(-1 - common) === expanded.at(-1 - common)) common++;
  return Math.max(whole.lastIndexOf("\\", whole.length - common - 1), 0);
}

// A command that does not exist is named in the message, and stands where it is first written.
function commandOffset(message, source) {
  const name = /\\(?:[A-Za-z]+\*?|.)$/u.exec(message)?.[0];
  if (!name) return -1;
  let offset = source.indexOf(name);
  while (offset >= 0 && /^[A-Za-z]/.test(source.slice(offset + name.length)) && /[A-Za-z]$/.test(name)) {
    offset = source.indexOf(name, offset + 1);
  }
  return offset;
}
