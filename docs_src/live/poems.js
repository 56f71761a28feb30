// What the models of the Chinese pages share: they have read quatrains of the Tang, and write them.
"use strict";
{
  const { el, select } = live;
  // Four lines of five or seven characters, and a blank line between poems. A poem of seven begins with a mark.
  const LINES = 4, NEW = "\n\n", SEVEN = "\u3000";

  // The lines of the last poem of a text, and how many characters each of them has.
  const poem_of = (text) => {
    const poem = text.split(NEW).at(-1);
    return { lines: poem.replace(SEVEN, "").split("\n"), width: poem.startsWith(SEVEN) ? 7 : 5 };
  };
  const complete = (text) => {
    const { lines, width } = poem_of(text);
    return (lines[LINES - 1] ?? "").length >= width;
  };
  // As people write it: two lines side by side, with a comma and a full stop.
  const punctuated = (text) => {
    const { lines, width } = poem_of(text);
    return lines.filter(Boolean).map((line, i) => (i && i % 2 === 0 ? "\n" : "") + line + (line.length < width ? "" : "，。"[i % 2])).join("");
  };
  // As a model reads it: a new line for each mark, after the blank line before a poem.
  const plain = (text) => {
    const lines = text.replace(/[，。！？；：、,.!?;\s]+/g, "\n").replace(/^\n/, "");
    const poem = NEW + (/^.{6}/.test(lines) ? SEVEN : "") + lines;
    return complete(poem) ? poem.trimEnd() : poem;
  };

  // Level and oblique tones: those of the characters in Tang verse, not of today's Chinese.
  const toned = (text) => [...text].map((one) => (live.verse["平"].includes(one) ? "○" : live.verse["仄"].includes(one) ? "●" : "，。\n".includes(one) ? one : "◐")).join("");

  // What a verse allows next: a new line where a line is full, and nowhere else; the poem ends after
  // its fourth line. Lines may begin with the characters of `heads`. With `rhymes`, the last character
  // has to rhyme with the end of the second line, and to be another one.
  const rule = (text, heads, { characters }, rhymes) => {
    if (complete(text)) return { over: true };
    const { lines, width } = poem_of(text), line = characters.indexOf("\n"), banned = [line, characters.indexOf(SEVEN)];
    if (lines.at(-1).length >= width) return { token: line };
    const head = lines.at(-1) ? undefined : heads[lines.length - 1];
    if (head) return { token: characters.indexOf(head) };
    const end = lines[1]?.at(-1), group = live.verse["韵"].find((one) => one.includes(end));
    if (!rhymes || !group || lines.length < LINES || lines.at(-1).length < width - 1) return { banned };
    return { banned: [...characters].flatMap((one, token) => (one !== end && group.includes(one) ? [] : [token])) };
  };

  // Writes on after the text of `field`, or a new poem whose lines begin with four given characters.
  const writer = (model, field, step) => {
    const fault = live.fault_line(), marks = el("output", { className: "written" });
    const input = el("input", { type: "text", value: "春夏秋冬", maxLength: LINES, size: 10, placeholder: "留空就续写" });
    const rhymes = el("input", { type: "checkbox", checked: true });
    const form = select("体裁", ["五言绝句", "七言绝句"], () => {});
    const begun = () => {
      const text = plain(field.input.value);
      return input.value || complete(text) ? NEW + (form.input.selectedIndex ? SEVEN : "") : text;
    };
    let start = NEW;
    const all = (tokens) => start + live.decode(tokens, model);
    const own = live.writer(model, {
      step, label: "写诗", more: true,
      begin: () => {
        const unknown = [...input.value].find((one) => !model.characters.includes(one));
        fault.say(unknown ? `“${unknown}”不在这个模型的 ${model.characters.length - 2} 个字里，请换一个字。` : "");
        if (unknown) return null;
        start = begun();
        let result;
        for (const token of live.encode(start, model)) result = step(token, result?.state);
        return result;
      },
      rule: (tokens) => rule(all(tokens), input.value, model, rhymes.checked),
      say: (tokens) => {
        const text = punctuated(all(tokens));
        marks.textContent = `${toned(text)}\n○ 平　● 仄　◐ 两可`;
        return text;
      },
      done: (tokens) => { if (tokens.length) field.set(punctuated(all(tokens))) },
    });
    const heads = el("label", { className: "knob" }, el("span", {}, "藏头四字"), input);
    const rhyming = el("label", { className: "knob" }, rhymes, "末字只从与第二句押韵的字里选");
    const box = el("div", {}, el("div", { className: "row" }, form, heads, rhyming), fault, own, marks);
    return Object.assign(box, { stop: own.stop });
  };

  const about = (model, rhymed) => el("p", { className: "small" },
    `${live.grouped(model.parameters)} 个参数，存为 6 位整数，每行一个缩放因子；训练用的是 39,246 首五言和 16,386 首七言，每首四句（唐诗，较长的诗每四句算一首），取自 npm 的 `,
    el("a", { href: "https://www.npmjs.com/package/chinese-poetry" }, "chinese-poetry"),
    `（MIT）。验证损失：舍入前每个字符 ${model.loss.before.toFixed(3)} 奈特，舍入后 ${model.loss.after.toFixed(3)}。末字不限时，每百首只有 ${rhymed.five} 首五言、${rhymed.seven} 首七言押韵。`);

  // What a panel of poems says and does otherwise than one of Shakespeare. `rhymed` is how many of a
  // hundred poems of each width rhyme by themselves.
  const examples = [
    "白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。",
    "朝辞白帝彩云间，千里江陵一日还。\n两岸猿声啼不住，轻舟已过万重山。",
    "白日依山尽，",
    "明月松间照，清泉",
  ];
  live.poems = (rhymed) => ({
    text: { label: "五言或七言诗，不超过四句", examples, encode: (text, model) => live.encode(plain(text), model) },
    written: "写一首绝句", writer, under: true, about: (model) => about(model, rhymed),
  });
  // The reader chooses what the panel's model has read.
  live.choice = (poems, choose) => {
    const choice = select("模型读过", ["唐诗", "莎士比亚"], (i) => choose(i === 0));
    choice.input.selectedIndex = poems ? 0 : 1;
    return choice;
  };
}
