// MathJax as it comes, for comparison: formulas as JSON on standard input, HTML and style sheet out.
// The first argument is the folder of MathJax's modules.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (path) => import(pathToFileURL(`${process.argv[2]}/${path}`));
const { mathjax } = await load("src/mjs/mathjax.js");
const { TeX } = await load("src/mjs/input/tex.js");
const { CHTML } = await load("src/mjs/output/chtml.js");
const { liteAdaptor } = await load("src/mjs/adaptors/liteAdaptor.js");
const { RegisterHTMLHandler } = await load("src/mjs/handlers/html.js");
const { MathJaxNewcmFont } = await load("mathjax-newcm-font/mjs/chtml.js");
await load("src/mjs/util/asyncLoad/esm.js");

const packages = ["base"];
for (const name of [
  "Action", "Ams", "AmsCd", "Bbox", "Boldsymbol", "Braket", "Cancel", "Cases", "Centernot", "Color",
  "Empheq", "Enclose", "Extpfeil", "Gensymb", "Html", "Mathtools", "Newcommand", "Textcomp",
  "TextMacros", "Unicode", "Units", "Upgreek", "Verb",
]) {
  await load(`src/mjs/input/tex/${name.toLowerCase()}/${name}Configuration.js`);
  packages.push(name.toLowerCase());
}

const adaptor = liteAdaptor();
RegisterHTMLHandler(adaptor);
const output = new CHTML({ fontData: MathJaxNewcmFont, fontURL: "fonts" });
const page = mathjax.document("", { InputJax: new TeX({ packages }), OutputJax: output });

const html = [];
for (const [tex, display] of JSON.parse(readFileSync(0, "utf8"))) {
  html.push(adaptor.outerHTML(await page.convertPromise(tex, { display })));
}
console.log(JSON.stringify({ html, css: adaptor.textContent(output.styleSheet(page)) }));
