// Read, error, write, ask, in a memory of two rows: the reader chooses key, value, β and what was read before.
stages.rule = ({ memories, pale, strong, most, narrow }, { before, key, apples, pears, beta }, parts) => {
  const show = (number) => `${Number(number.toFixed(2)) || 0}`.replace("-", "\u2212");
  const list = (numbers) => `(${numbers.map(show).join(", ")})`;
  const memory = memories[before];
  const k = [Math.sqrt(1 - key * key), key];
  const value = [apples, pears];
  const find = (query, rows) => value.map((_value, j) => query[0] * rows[0][j] + query[1] * rows[1][j]);
  const answer = find(k, memory);
  const error = value.map((number, j) => number - answer[j]);
  const written = error.map((number) => beta * number);
  const changes = k.map((share) => written.map((number) => share * number));
  const after = memory.map((row, i) => row.map((number, j) => number + changes[i][j]));
  const found = [after[0], after[1], find(k, after)];
  const has = [key === 0 ? value : memory[0], key === 1 ? value : memory[1], value];

  const fill = (name, numbers, largest = most) => {
    parts(name).forEach((one, i) => (one.textContent = show(numbers[i % numbers.length])));
    parts(`${name}-ground`).forEach((one, i) => {
      const strength = pale + strong * Math.min(Math.abs(numbers[i % numbers.length]) / largest, 1);
      one.setAttribute("fill-opacity", strength.toFixed(2));
    });
  };
  fill("key", k, narrow);
  for (const [name, numbers] of Object.entries({ memory, value, answer, error, written, after, has, found })) fill(name, numbers.flat());
  parts("change").forEach((one, i) => {
    const [old, change] = [memory.flat()[i], changes.flat()[i]];
    one.textContent = `${show(old)} ${change < -0.005 ? "\u2212" : "+"} ${show(Math.abs(change))}`;
  });
  parts("off").forEach((one, i) => {
    const off = found[i].some((number, j) => Math.abs(number - has[i][j]) > 0.005);
    one.setAttribute("stroke-opacity", off ? 1 : 0);
  });
  const said = [list(k), list(answer), list(error), show(beta), list(found[2])];
  return _("The key {0} finds {1}. The error is {2}, and {3} of it is written. Then the key finds {4}.", ...said);
};
// Fade, read, error, write: the same with a memory that fades first. β is 1.
stages.fading = ({ memory, pale, strong, most, narrow }, { alpha, key, apples, pears }, parts) => {
  const show = (number) => `${Number(number.toFixed(2)) || 0}`.replace("-", "\u2212");
  const list = (numbers) => `(${numbers.map(show).join(", ")})`;
  const k = [Math.sqrt(1 - key * key), key];
  const value = [apples, pears];
  const faded = memory.map((row) => row.map((number) => alpha * number));
  const answer = value.map((_value, j) => k[0] * faded[0][j] + k[1] * faded[1][j]);
  const error = value.map((number, j) => number - answer[j]);
  const after = faded.map((row, i) => row.map((number, j) => number + k[i] * error[j]));
  const fill = (name, numbers, largest = most) => {
    parts(name).forEach((one, i) => (one.textContent = show(numbers[i % numbers.length])));
    parts(`${name}-ground`).forEach((one, i) => {
      const strength = pale + strong * Math.min(Math.abs(numbers[i % numbers.length]) / largest, 1);
      one.setAttribute("fill-opacity", strength.toFixed(2));
    });
  };
  fill("key", k, narrow);
  for (const [name, numbers] of Object.entries({ faded, memory: faded, value, answer, error, after })) fill(name, numbers.flat());
  parts("old").forEach((one, i) => (one.textContent = `${show(alpha)} \u00b7 ${show(memory.flat()[i])}`));
  parts("change").forEach((one, i) => {
    const [old, change] = [faded.flat()[i], k[i >> 1] * error[i % 2]];
    one.textContent = `${show(old)} ${change < -0.005 ? "\u2212" : "+"} ${show(Math.abs(change))}`;
  });
  const said = [list(k), list(answer), list(error)];
  return _("The key {0} finds {1} of what was there before, and the error is {2}.", ...said);
};
