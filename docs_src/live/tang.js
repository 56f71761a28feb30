// The transformer of the Chinese pages: it has read quatrains of the Tang, and writes them. What its
// panel says and does otherwise than that of the English pages, whose model has read Shakespeare.
"use strict";
{
  const { el } = live;
  // Five characters to a line, four lines to a poem, and a blank line between poems.
  const WIDTH = 5, LINES = 4, NEW = "\n\n";
  const STORKS = "白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。", SUN = "白日依山尽，";

  // The lines of the last poem of a text.
  const lines_of = (text) => text.split(NEW).at(-1).split("\n");
  const complete = (text) => (lines_of(text)[LINES - 1] ?? "").length >= WIDTH;
  // As people write it: two lines side by side, with a comma and a full stop.
  const punctuated = (text) => text.trim().split(/\n+/).map((line, i) => (i && i % 2 === 0 ? "\n" : "") + line + (line.length < WIDTH ? "" : "，。"[i % 2])).join("");
  // As the model reads it: a new line for each mark, after the blank line before a poem.
  const plain = (text) => {
    const lines = NEW + text.replace(/[，。！？；：、,.!?;\s]+/g, "\n").replace(/^\n/, "");
    return complete(lines) ? lines.trimEnd() : lines;
  };

  // Level and oblique tones: those of the characters in Tang verse, not of today's Chinese.
  const toned = (text) => [...text].map((one) => (live.verse["平"].includes(one) ? "○" : live.verse["仄"].includes(one) ? "●" : "，。\n".includes(one) ? one : "◐")).join("");

  // What a verse allows next: a new line where a line is full, and nowhere else; the poem ends after
  // its fourth line. Lines may begin with the characters of `heads`. With `rhymes`, the last character
  // has to rhyme with the end of the second line, and to be another one.
  const rule = (text, heads, { characters }, rhymes) => {
    if (complete(text)) return { over: true };
    const lines = lines_of(text), line = characters.indexOf("\n");
    if (lines.at(-1).length >= WIDTH) return { token: line };
    const head = lines.at(-1) ? undefined : heads[lines.length - 1];
    if (head) return { token: characters.indexOf(head) };
    const end = lines[1]?.at(-1), group = live.verse["韵"].find((one) => one.includes(end));
    if (!rhymes || !group || lines.length < LINES || lines.at(-1).length < WIDTH - 1) return { banned: [line] };
    return { banned: [...characters].flatMap((one, token) => (one !== end && group.includes(one) ? [] : [token])) };
  };

  // Writes on after the text of `field`, or a new poem whose lines begin with four given characters.
  const writer = (model, field, step) => {
    const fault = live.fault_line(), marks = el("output", { className: "written" });
    const input = el("input", { type: "text", value: "春夏秋冬", maxLength: LINES, size: 10, placeholder: "留空就续写" });
    const rhymes = el("input", { type: "checkbox", checked: true });
    const text = () => plain(field.input.value);
    const begun = () => (input.value || complete(text()) ? NEW : text());
    let start = NEW;
    const all = (tokens) => start + live.decode(tokens, model);
    const own = live.writer(model, {
      step, label: "写诗", more: true,
      begin: () => {
        const unknown = [...input.value].find((one) => !model.characters.includes(one));
        fault.say(unknown ? `“${unknown}”不在这个模型的 ${model.characters.length - 1} 个字里，请换一个字。` : "");
        if (unknown) return null;
        start = begun();
        let result;
        for (const token of live.encode(start, model)) result = step(token, result?.state);
        return result;
      },
      rule: (tokens) => rule(all(tokens), input.value, model, rhymes.checked),
      say: (tokens) => {
        const text = punctuated(all(tokens));
        marks.textContent = `${toned(text)}　○ 平 ● 仄 ◐ 两可`;
        return text;
      },
      done: (tokens) => { if (tokens.length) field.set(punctuated(all(tokens))) },
    });
    const heads = el("label", { className: "knob" }, el("span", {}, "藏头四字"), input);
    const rhyming = el("label", { className: "knob" }, rhymes, "末字只从与第二句押韵的字里选");
    const box = el("div", {}, heads, rhyming, fault, own, marks);
    return Object.assign(box, { stop: own.stop });
  };

  const about = (model) => el("p", { className: "small" },
    `${live.grouped(model.parameters)} 个参数，存为 6 位整数，每行一个缩放因子；训练用的是 39,721 首五言四句（唐诗，较长的诗每四句算一首），取自 npm 的 `,
    el("a", { href: "https://www.npmjs.com/package/chinese-poetry" }, "chinese-poetry"),
    `（MIT）。验证损失：舍入前每个字符 ${model.loss.before.toFixed(3)} 奈特，舍入后 ${model.loss.after.toFixed(3)}。`);

  live.tang = () => ({
    name: "tang",
    text: { label: "五言诗，不超过四句", value: STORKS, examples: [STORKS, SUN, "明月松间照，清泉", "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。"], encode: (text, model) => live.encode(plain(text), model) },
    observations: [
      ["第 2 层第 2 个头看对仗：要写下句的一个字，它先看上句同一位置的字。在《登鹳雀楼》的两联里，平均把 83 % 的权重给它。", STORKS, [1, 1], false, 8],
      ["“白日依山尽”之后，模型预测下句以颜色开头，与“白”相对：“青”21 %，“黄”6 %，“红”3 %。关掉第 2 层第 2 个头，“青”就只剩 1 %。", SUN, [1, 1], true],
      ["第 2 层第 3 个头往回看两个字：在这首诗里，平均 91 %。", STORKS, [1, 2], false, 10],
    ],
    first: 0, written: "写一首五言绝句", about, writer,
  });
}
