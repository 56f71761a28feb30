// The LSTM that has read poems.
"use strict";
live.panel.of_poems = () => {
  const [clock, width, all] = [[0, 70], [1, 62], [1, 40]], own = live.poems({ five: 5, seven: 6 }), [, river] = own.text.examples;
  return {
    ...own, name: "tang_lstm", cell: "lstm", title: "LSTM 的门：两层，每层 100 个循环单元",
    known: [["句中第几个字", ...clock], ["五言还是七言", ...width], ["读了多少字", ...all]],
    observations: [
      ["第 1 层第 71 个循环单元数字：读了一句的第一个字，细胞状态是 −1.7，此后每个字平均加 0.8，五个字读完，到 1.4 以上。到了换行，遗忘门关到 0.02，从头再数。", clock, 18],
      ["让它的遗忘门一直开着，开头的空行也数了进去，数就偏低。读完《早发白帝城》的第一句，换行的概率从 100 % 降到 1 %：模型以为这一句还没到头。", clock, 9, 2, river],
      ["第 2 层第 63 个循环单元记着这是五言还是七言：读《登鹳雀楼》，从第一个字起一直是负的；读这首七言，一直是正的，读完时是 3.37。", width, 33, 0, river],
    ],
  };
};
