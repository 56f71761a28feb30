// The terms of a text: each word in lower case, and its parts where it is put together, such as
// FeedbackAttention.
const WORD = /[\p{L}\p{N}]+(?:_+[\p{L}\p{N}]+)*/gu;
const PARTS = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+/g;

const terms = (text) => {
  const found = [];
  for (const word of text.normalize("NFKD").replace(/\p{M}/gu, "").match(WORD) ?? []) {
    found.push(word.toLowerCase());
    const parts = word.match(PARTS) ?? [];
    if (parts.length > 1) found.push(...parts.map((part) => part.toLowerCase()));
  }
  return found;
};
