// Four tokens as a table, as a loop and in chunks: each form computes its own sums.
stages.linear_attention = ({ tokens, values, chunks, pale, strong, most, unit }, { cleo, chunk }, parts, step) => {
  const show = (number) => `${Math.round(number * 100) / 100}`.replace("-", "−");
  const list = (numbers) => `(${numbers.map(show).join(", ")})`;
  const dot = (a, b) => a.reduce((sum, number, i) => sum + number * b[i], 0);
  const weigh = (weights, rows) => [0, 1, 2].map((j) => rows.reduce((sum, row, i) => sum + weights[i] * row[j], 0));
  const add = (a, b) => a.map((number, i) => number + b[i]);
  // Numbers into the cells of this name; what is undefined leaves a cell empty. A _ is its ground.
  const fill = (name, numbers, largest = most) => numbers.flat().forEach((number, i) => {
    const empty = number === undefined;
    parts(name)[i].textContent = empty ? " " : show(number);
    const box = parts(`${name}_`)[i];
    box.setAttribute("opacity", empty ? 0 : 1);
    if (!empty) box.setAttribute("fill-opacity", (pale + strong * Math.min(Math.abs(number) / largest, 1)).toFixed(2));
  });

  const t = Math.round(step), size = chunks[chunk], begin = Math.floor(t / size) * size;
  const keys = [[1, 0], [0, 1], [cleo, Math.sqrt(1 - cleo * cleo)], [1, 0]];
  const rows = values.map((value) => [...value, 1]);
  const outer = (s) => keys[s].map((number) => rows[s].map((value) => number * value));
  const memory = (count) => {
    let S = [[0, 0, 0], [0, 0, 0]];
    for (let s = 0; s < count; s++) S = S.map((row, i) => add(row, outer(s)[i]));
    return S;
  };

  // The table: all weights, and the row of this token.
  const weights = keys.map((query, i) => keys.slice(0, i + 1).map((key) => dot(query, key)));
  fill("weight", weights, unit);
  parts("row").forEach((row, i) => row.setAttribute("stroke-opacity", Math.max(1 - Math.abs(step - i), 0)));
  const byTable = weigh(weights[t], rows.slice(0, t + 1));
  fill("by-table", byTable);

  // The loop: write, then read.
  fill("before", memory(t));
  fill("key", keys[t], unit);
  fill("value", rows[t]);
  fill("outer", outer(t));
  const after = memory(t + 1);
  fill("after", after);
  fill("query", keys[t], unit);
  const byLoop = weigh(keys[t], after);
  fill("by-loop", byLoop);

  // Chunks: the memory of the chunks before, and a small table of the own one.
  tokens.forEach((_, i) => {
    const place = parts("place")[i], own = i >= begin && i < begin + size;
    place.classList.toggle("p-t0", own);
    place.classList.toggle("p-t5", i < begin);
    place.classList.toggle("p-t4", !own && i >= begin);
    place.setAttribute("fill-opacity", i === t ? 0.4 : i < t ? 0.2 : 0.04);
    if (i) parts("cut")[i - 1].setAttribute("stroke-opacity", i % size ? 0 : 1);
  });
  const kept = memory(begin), near = [0, 1, 2, 3].map((i) => (begin + i <= t ? weights[t][begin + i] : undefined));
  const inside = near.filter((weight) => weight !== undefined);
  fill("ask", keys[t], unit);
  fill("kept", kept);
  fill("near", near, unit);
  fill("own", near.map((weight, i) => (weight === undefined ? [undefined, undefined, undefined] : rows[begin + i])));
  const parted = [weigh(keys[t], kept), weigh(inside, rows.slice(begin, t + 1))];
  fill("part-memory", parted[0]);
  fill("part-own", parted[1]);
  const byChunks = add(...parted);
  fill("by-chunks", byChunks);

  for (const [name, sum] of [["table", byTable], ["loop", byLoop], ["chunks", byChunks]]) {
    fill(`sum-${name}`, sum.slice(0, 2));
    fill(`all-${name}`, [sum[2]], 4);
  }
  const mean = byTable.slice(0, 2).map((number) => number / byTable[2]);
  fill("mean", mean);
  fill("has", values[t]);
  return _("After token {0}, {1}, all three find {2}, and the sum of the weights is {3}. The average is {4}; written was {5}.",
    t + 1, tokens[t], list(byTable.slice(0, 2)), show(byTable[2]), list(mean), list(values[t]),
  );
};
