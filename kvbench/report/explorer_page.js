// The explorer's controls: they offer what the arithmetic can answer for the chosen model and
// layout, and say why where it cannot.
(() => {
  if (!window.kvbenchExplorer) return;
  const { data, explore, deviceBudget } = window.kvbenchExplorer;
  const big = (value) => BigInt(value);
  const part = (name) => document.getElementById("explorer-" + name);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const inBinary = (bytes) => {
    let value = Number(bytes);
    let step = 0;
    while (Math.abs(value) >= 1024 && step < units.length - 1) { value /= 1024; step += 1; }
    return Number(value.toPrecision(4)).toString() + " " + units[step];
  };
  const grouped = (value) => value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const exact = (bytes) => inBinary(bytes) + " (" + grouped(bytes) + " B)";
  const percent = (share, whole) =>
    whole ? Number((Number(share) / Number(whole) * 100).toPrecision(3)) + " %" : "–";

  // Offers values of one control; a choice that is still offered stays.
  const offer = (name, values, otherwise) => {
    const chosen = part(name).value || window.kvbenchState.get("x." + name);
    part(name).replaceChildren(...values.map(([value, text]) => new Option(text, value)));
    const has = (wanted) => values.some(([value]) => String(value) === String(wanted));
    part(name).value = has(chosen) ? chosen : has(otherwise) ? otherwise : values[0][0];
  };
  const modelNow = () => data.models.find((each) => each.model === part("model").value);
  const layoutNow = () => data.layouts.find((each) =>
    each.model === part("model").value && each.name === part("layout").value);
  const unique = (values) => [...new Set(values)];

  const offerLayouts = () => {
    const own = data.layouts.filter((each) => each.model === part("model").value);
    const names = own.map((each) => [each.name, each.name]);
    offer("layout", [...names, ["paged", "plain paged, no engine behind it"]],
      (names[0] || ["paged"])[0]);
  };
  const typeName = (name) => [name, name === "auto" ? "auto (the model's own)" : name];
  const blockName = (size) => [size, size === "" ? "the engine's choice" : size + " tokens"];
  const rankName = (ranks) => [ranks, Number(ranks) === 1 ? "1 rank" : ranks + " ranks"];
  const byNumber = (a, b) => Number(a) - Number(b);
  const offerChoices = () => {
    const layout = layoutNow();
    const keys = layout ? Object.keys(layout.plans).map((key) => key.split("|")) : [];
    const place = (index) => unique(keys.map((key) => key[index]));
    const dtypes = layout ? place(0) : ["auto", ...Object.keys(data.kv_dtypes)];
    const ranks = layout ? place(1) : [1, 2, 4, 8, 16];
    const sizes = layout ? place(2) : unique([8, 16, 32, 64, 128, 256, data.defaults.block_size]);
    offer("dtype", dtypes.map(typeName), data.defaults.kv_dtype);
    offer("tp", ranks.sort(byNumber).map(rankName), data.defaults.tp);
    offer("block", sizes.sort(byNumber).map(blockName), layout ? "" : data.defaults.block_size);
    part("basis").textContent = layout
      ? layout.name + ", from the groups and pages that this run arranged for the choices offered"
      : "plain paged layout, no engine behind it, from the model's geometry";
  };
  const fittedName = (budget) => budget.device + ", fitted by this run";
  const fittedWords = (budget) => "utilization " + budget.utilization + ", " +
    grouped(budget.tokens) + " tokens and " + grouped(budget.sequences) + " requests a step";
  const offerMemory = () => {
    const names = data.fitted.map((budget) => budget.model + budget.device);
    const isOnly = (place) => names.filter((name) => name === names[place]).length === 1;
    const fitted = data.fitted.map((budget, place) => ["f:" + place, isOnly(place)
      ? fittedName(budget) : fittedName(budget) + ": " + fittedWords(budget)])
      .filter((_, place) => data.fitted[place].model === part("model").value);
    const budgets = data.budgets.map((bytes) => ["b:" + bytes, inBinary(bytes) + " for the cache"]);
    const devices = data.devices.map((device) =>
      ["d:" + device.name, device.name + ", its share less the weights"]);
    const own = ["own", "own budget, GiB"];
    const offered = [...fitted, ...budgets, ...devices, own];
    offer("budget", offered, offered[0][0]);
  };
  const setUp = () => {
    offer("model", data.models.map((model) => [model.model, model.model]), data.defaults.model);
    offerLayouts();
    offerChoices();
    offerMemory();
    part("tokens").value = data.defaults.context;
    part("requests").value = data.defaults.requests;
    for (const name of ["tokens", "requests", "own", "share", "reserved"]) {
      const kept = window.kvbenchState.get("x." + name);
      if (kept) part(name).value = kept;
    }
  };
  const inputs = ["model", "layout", "tokens", "requests", "dtype", "block", "tp", "budget", "own",
    "share", "reserved"];
  const whole = (name, least_) => {
    const value = Math.floor(Number(part(name).value));
    return Number.isFinite(value) && value >= least_ ? Math.min(value, 1e9) : least_;
  };
  const gib = (name) =>
    big(Math.round(Math.max(0, Number(part(name).value) || 0) * 1024)) * 1048576n;

  // Low end, middle and high end of the budget, all equal where nothing is uncertain.
  const budgetOf = (model, tp) => {
    const chosen = part("budget").value;
    const exactly = (bytes) => ({ range: [bytes, bytes, bytes], seats: null });
    if (chosen.startsWith("b:")) return exactly(big(chosen.slice(2)));
    if (chosen === "own") return exactly(gib("own"));
    if (chosen.startsWith("f:")) {
      const fitted = data.fitted[Number(chosen.slice(2))];
      const range = fitted.ranks[tp];
      if (!range) return { missing: "this run fitted no budget for " + tp + " ranks" };
      return { range: range.map(big), seats: fitted.sequences, words: fittedWords(fitted) };
    }
    const device = data.devices.find((candidate) => "d:" + candidate.name === chosen);
    if (!model.weight_bytes) return { missing: "the weights of this model are not known" };
    return exactly(deviceBudget(device, whole("share", 1) * 10, model, tp, gib("reserved")));
  };
  const choiceNow = () => {
    const size = part("block").value;
    const tp = whole("tp", 1);
    const memory = budgetOf(modelNow(), tp);
    return {
      model: modelNow().model, layout: layoutNow()?.name || "", tokens: whole("tokens", 1),
      requests: whole("requests", 1), kvDtype: part("dtype").value,
      blockSize: size === "" ? null : Number(size), tp, memory,
      budget: memory.range ? memory.range[1] : null,
    };
  };

  const row = (body, cells) => {
    const line = body.insertRow();
    cells.forEach((text, place) => {
      const cell = place ? line.insertCell() : document.createElement("th");
      if (!place) { cell.scope = "row"; line.append(cell); } else cell.className = "n";
      cell.textContent = text;
    });
  };
  const ends = (choice) => choice.memory.range
    .map((budget) => explore({ ...choice, budget }).concurrency);
  const answer = (choice, found) => {
    if (choice.memory.missing) {
      return inBinary(found.paged) + " per request; " + choice.memory.missing + ".";
    }
    const [low, , high] = ends(choice);
    const between = low < high ? " (" + grouped(low) + " to " + grouped(high) +
      " over the budget's interval)" : "";
    const seats = choice.memory.seats;
    const capped = seats !== null && found.concurrency > big(seats)
      ? ", of which " + grouped(seats) + " run at once (max_num_seqs)" : "";
    const fits = found.concurrency >= big(choice.requests);
    return grouped(found.concurrency) + " concurrent requests of " + grouped(choice.tokens) +
      " tokens fit" + between + capped + ": " + grouped(choice.requests) +
      (fits ? " fit." : " do not fit.");
  };
  const clear = (reason) => {
    part("answer").textContent = reason;
    for (const name of ["figures", "groups", "lengths"]) part(name).replaceChildren();
  };
  const show = () => {
    const choice = choiceNow();
    const chosen = part("budget").value;
    part("own").disabled = chosen !== "own";
    part("share").disabled = part("reserved").disabled = !chosen.startsWith("d:");
    const found = explore(choice);
    if (found.refusal) {
      clear("No figures for this choice: " + found.refusal + ".");
      return;
    }
    part("answer").textContent = answer(choice, found);
    showFigures(choice, found);
    const groups = part("groups");
    groups.replaceChildren();
    found.groups.forEach((group, place) => row(groups, [
      group.kind, group.layers.toString(), exact(group.page), grouped(found.blocks[place]),
    ]));
    showLengths(choice);
  };
  const showFigures = (choice, found) => {
    const body = part("figures");
    body.replaceChildren();
    row(body, ["Logical bytes of one request", exact(found.logical)]);
    row(body, ["Paged bytes of one request", exact(found.paged)]);
    row(body, ["Tail waste and padding",
      exact(found.tail) + ", " + (found.paged ? percent(found.tail, found.paged) : "–")]);
    row(body, ["Needed for admission", exact(found.admission)]);
    row(body, ["Tokens per block", grouped(found.blockSize)]);
    row(body, ["Bytes per block id", exact(found.perBlock)]);
    const noun = choice.requests === 1 ? " request" : " requests";
    row(body, ["Paged bytes of " + grouped(choice.requests) + noun, exact(found.total)]);
    if (found.budget === undefined) return;
    const [low, , high] = choice.memory.range;
    const between = low < high ? ", between " + inBinary(low) + " and " + inBinary(high) : "";
    row(body, ["Budget for the cache, one rank", exact(found.budget) + between]);
    if (choice.memory.words) row(body, ["Fitted for", choice.memory.words]);
    row(body, ["Blocks in the pool", grouped(found.poolBlocks)]);
    row(body, ["Concurrent requests", grouped(found.concurrency)]);
    row(body, [choice.layout ? "Size of the pool as the engine reports it"
      : "Longest single request", grouped(found.capacity) + " tokens"]);
  };
  const showLengths = (choice) => {
    const body = part("lengths");
    body.replaceChildren();
    const stated = modelNow().max_context_tokens;
    for (let tokens = 1024; tokens <= 1048576; tokens *= 2) {
      if (stated && tokens > stated) break;
      const found = explore({ ...choice, tokens });
      row(body, [grouped(tokens), inBinary(found.paged),
        found.budget === undefined ? "–" : grouped(found.concurrency)]);
    }
  };

  setUp();
  part("slider").value = Math.log2(whole("tokens", 1));
  part("tool").hidden = false;
  part("slider").addEventListener("input", () => {
    part("tokens").value = Math.round(2 ** Number(part("slider").value));
    part("tokens").dispatchEvent(new Event("input"));
  });
  for (const name of inputs) {
    part(name).addEventListener("input", () => {
      window.kvbenchState.keep("x." + name, part(name).value);
      if (name === "tokens") part("slider").value = Math.log2(whole("tokens", 1));
      if (name === "model") { offerLayouts(); offerMemory(); }
      if (name === "model" || name === "layout") offerChoices();
      show();
    });
  }
  show();
})();
