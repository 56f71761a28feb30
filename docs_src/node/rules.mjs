// Style rules as short text, each led by a digit that says how general it is: the generator sorts
// the rules of all formulas by it, so that the sheet does not depend on their order.
//
//   1  how a kind of element is laid out (fractions, scripts, tables)
//   2  a font, and the class that selects it
//   3  the size of one character in one font

// Font classes: `NCM-` and the letters that also name the file.
const FONT_CLASS = /\bNCM-[A-Za-z0-9-]+/g;
// The font that is always there, and one of zero height before it, which keeps the height of a
// line independent of the fonts that a browser falls back on.
const ALWAYS = ["NCM-ZERO", "NCM-N"];

export function rule(selector, declarations) {
  const selectors = selector.split(", ").join(",");
  const body = Object.entries(declarations).map(([name, value]) =>
    typeof value === "object" ? rule(name, value) : `${name}:${value}`);
  return `${selectors}{${body.join(";")}}`;
}

export function fontRules(html) {
  const classes = new Set([...ALWAYS, ...(html.match(FONT_CLASS) ?? [])]);
  return [...classes].sort().map((name) => {
    const family = `MJX-${name}`;
    const source = `url(fonts/${family.toLowerCase()}.woff2) format("woff2")`;
    return `2@font-face{font-family:${family};src:${source}}` +
      `.${name}{font-family:MJX-NCM-ZERO,${family}}`;
  });
}
