// The transformer that has read poems.
"use strict";
live.panel.of_poems = () => {
  const own = live.poems({ five: 9, seven: 4 }), [storks, , sun] = own.text.examples;
  return {
    ...own, name: "tang", first: 0,
    observations: [
      ["第 3 层第 1 个头看对仗：要写下句的一个字，它先看上句同一位置的字。在《登鹳雀楼》的两联里，平均把 57 % 的权重给它；写第三句时一联已完，就只有 1 %。", storks, [2, 0], false, 8],
      ["“白日依山尽”之后，模型预测下句以颜色开头，与“白”相对：“青”34 %，“黄”6 %，“红”5 %。关掉第 3 层第 1 个头，“青”就只剩 1 %。", sun, [2, 0], true],
      ["第 2 层第 3 个头看前一个字：在这首诗里，从每句的第三个字起，平均 89 %。", storks, [1, 2], false, 10],
    ],
  };
};
