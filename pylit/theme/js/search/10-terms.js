// The terms of a text: each word in lower case, and its parts where it is put together, such as
// FeedbackAttention. Chinese and Japanese have no spaces between words: there a term is a pair of
// adjacent characters, or a character that stands alone. A root is "sqrt", however it is written.
const HAN = /[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u;
const RUN = new RegExp(`${HAN.source}+`, "gu");
const WORD = /[\p{L}\p{N}]+(?:_+[\p{L}\p{N}]+)*/gu;
const PARTS = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+/g;

const pairsOf = ([...letters]) => letters.slice(1).map((letter, i) => letters[i] + letter);
const terms = (text) => {
  const found = [];
  text = text.replace(/√|根号|平方根/g, " sqrt ").replace(/square[ -]roots?\b/gi, "$& sqrt");
  for (const word of text.normalize("NFKD").replace(/\p{M}/gu, "").replace(RUN, " $& ").match(WORD) ?? []) {
    const pairs = HAN.test(word) ? pairsOf(word) : [];
    found.push(...(pairs.length ? pairs : [word.toLowerCase()]));
    const parts = pairs.length ? [] : word.match(PARTS) ?? [];
    if (parts.length > 1) found.push(...parts.map((part) => part.toLowerCase()));
  }
  return found;
};
