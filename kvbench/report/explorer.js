// The explorer: the paged layout recomputed in the page with exact integers (BigInt), for any
// context, dtype, block size and number of ranks. Every figure is for one request on one rank.
(() => {
  const holder = document.getElementById("explorer-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const big = (value) => BigInt(value);
  const ceilDiv = (value, divisor) => (value + divisor - 1n) / divisor;
  const least = (a, b) => (a < b ? a : b);

  // Bytes of one vector: elements, the vector's own scale, scales of its groups.
  const vectorBytes = (elements, [bits, vectorScale, group, groupScale]) =>
    ceilDiv(elements * big(bits), 8n) + big(vectorScale) +
    (group ? ceilDiv(elements, big(group)) * big(groupScale) : 0n);
  const latentBytes = (latent, rope, element) => element[4]
    ? vectorBytes(latent, element) + ceilDiv(rope * big(element[4]), 8n)
    : vectorBytes(latent + rope, element);
  const pairBytes = (cache, element, tp) => {
    const heads = ceilDiv(big(cache.kv_heads), tp);
    return heads * (vectorBytes(big(cache.k), element) + vectorBytes(big(cache.v), element));
  };
  const tensorBytes = (tensor, tp) => {
    const elements = tensor.shape.reduce(
      (product, size, place) =>
        product * (place === tensor.tp_dim ? ceilDiv(big(size), tp) : big(size)), 1n);
    return vectorBytes(elements, tensor.element);
  };

  // What one cache costs: bytes of an entry, tokens per entry, tokens it sees, fixed bytes.
  const cost = (cache, element, tp) => {
    const none = { entry: 0n, compress: 1n, visible: null, fixed: 0n };
    const window = cache.window ? big(cache.window) : null;
    if (cache.kind === "mla") {
      const entry = latentBytes(big(cache.latent), big(cache.rope), element);
      return { ...none, entry, compress: big(cache.compress), visible: window };
    }
    if (cache.kind === "indexer") {
      return { ...none, entry: big(cache.bytes), compress: big(cache.compress) };
    }
    if (cache.kind === "state") {
      return { ...none, fixed: cache.tensors.reduce((sum, t) => sum + tensorBytes(t, tp), 0n) };
    }
    const pair = pairBytes(cache, element, tp);
    if (cache.kind === "cross") return { ...none, fixed: pair * big(cache.tokens) };
    return { ...none, entry: pair, visible: window };
  };

  const arrange = (model, dtype, blockSize, tp) => {
    const element = data.kv_dtypes[dtype === "auto" ? model.dtype : dtype];
    const groups = model.caches.map((cache) => {
      const it = cost(cache, element, big(tp));
      const fixed = it.entry === 0n;
      const page = fixed ? it.fixed : it.entry * ceilDiv(big(blockSize), it.compress);
      return { ...it, kind: cache.kind, layers: big(cache.layers), isFixed: fixed, page };
    }).filter((group) => group.entry || group.fixed);
    const growing = groups.filter((group) => !group.isFixed);
    const perBlock = (growing.length ? growing : groups)
      .reduce((sum, group) => sum + group.layers * group.page, 0n);
    return { groups, blockSize: big(blockSize), perBlock };
  };
  const groupBlocks = (group, blockSize, tokens) => {
    if (group.isFixed) return 1n;
    const blocks = ceilDiv(tokens, blockSize);
    if (group.visible === null) return blocks;
    return least(blocks, (group.visible + blockSize - 2n) / blockSize + 1n);
  };
  const logicalBytes = (plan, tokens) => plan.groups.reduce((sum, group) => {
    const seen = group.visible === null ? tokens : least(tokens, group.visible);
    return sum + group.layers * (group.fixed + group.entry * (seen / group.compress));
  }, 0n);
  const pagedBytes = (plan, tokens) => plan.groups.reduce(
    (sum, group) =>
      sum + groupBlocks(group, plan.blockSize, tokens) * group.layers * group.page, 0n);
  const largest = (low, high, fits) => {
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      if (fits(middle)) low = middle; else high = middle;
    }
    return low;
  };
  const capacityTokens = (plan, pool) => {
    if (!plan.groups.some((group) => !group.isFixed && group.visible === null)) return 0n;
    const fits = (blocks) => pagedBytes(plan, blocks * plan.blockSize) <= pool;
    return largest(0n, pool + 1n, fits) * plan.blockSize;
  };

  // All figures of one choice; big integers, so that nothing is rounded on the way.
  const explore = (choice) => {
    const model = data.models.find((candidate) => candidate.model === choice.model);
    const plan = arrange(model, choice.kvDtype, choice.blockSize, choice.tp);
    const tokens = big(choice.tokens);
    const logical = logicalBytes(plan, tokens);
    const paged = pagedBytes(plan, tokens);
    const blocks = plan.groups.map((group) => groupBlocks(group, plan.blockSize, tokens));
    const found = {
      logical, paged, blocks, tail: paged - logical, perBlock: plan.perBlock,
      groups: plan.groups, total: paged * big(choice.requests),
    };
    if (choice.budget === null) return found;
    const budget = choice.budget > 0n ? choice.budget : 0n;
    const poolBlocks = plan.perBlock ? budget / plan.perBlock : 0n;
    const pool = poolBlocks * plan.perBlock;
    return {
      ...found, budget, poolBlocks, pool,
      concurrency: paged ? pool / paged : 0n, capacity: capacityTokens(plan, pool),
    };
  };

  // Memory of a device for the cache of one rank: its share, less weights and what is stated.
  const deviceBudget = (device, permille, model, tp, reserved) =>
    big(device.memory_bytes) * big(permille) / 1000n -
    ceilDiv(big(model.weight_bytes || 0), big(tp)) - reserved;
  window.kvbenchExplorer = { data, explore, deviceBudget };

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

  const fill = (select, values, chosen) => {
    for (const [value, text] of values) {
      const option = new Option(text, value, false, String(value) === String(chosen));
      select.append(option);
    }
  };
  const setUp = () => {
    const names = data.models.map((model) => [model.model, model.model]);
    fill(part("model"), names, data.defaults.model);
    const dtypes = Object.keys(data.kv_dtypes).map((name) => [name, name]);
    fill(part("dtype"), [["auto", "auto (the model's own)"], ...dtypes], data.defaults.kv_dtype);
    const sizes = new Set([8, 16, 32, 64, 128, 256, data.defaults.block_size]);
    const ordered = [...sizes].sort((a, b) => a - b);
    fill(part("block"), ordered.map((size) => [size, size + " tokens"]), data.defaults.block_size);
    fill(part("tp"), [1, 2, 4, 8, 16].map((n) => [n, n === 1 ? "1 rank" : n + " ranks"]),
      data.defaults.tp);
    const devices = data.devices.map((device) =>
      ["d:" + device.name, device.name + ", " + inBinary(device.memory_bytes)]);
    const budgets = data.budgets.map((bytes) => ["b:" + bytes, inBinary(bytes) + " for the cache"]);
    fill(part("budget"), [...budgets, ...devices, ["own", "own budget, GiB"]],
      (budgets[0] || devices[0] || ["own"])[0]);
    part("tokens").value = data.defaults.context;
    part("requests").value = data.defaults.requests;
    for (const name of inputs) {
      const kept = window.kvbenchState.get("x." + name);
      if (kept) part(name).value = kept;
    }
  };
  const inputs = ["model", "tokens", "requests", "dtype", "block", "tp", "budget", "own", "share",
    "reserved"];
  const whole = (name, least_) => {
    const value = Math.floor(Number(part(name).value));
    return Number.isFinite(value) && value >= least_ ? Math.min(value, 1e9) : least_;
  };
  const gib = (name) =>
    big(Math.round(Math.max(0, Number(part(name).value) || 0) * 1024)) * 1048576n;
  const budgetOf = (model, tp) => {
    const chosen = part("budget").value;
    if (chosen.startsWith("b:")) return big(chosen.slice(2));
    if (chosen === "own") return gib("own");
    const device = data.devices.find((candidate) => "d:" + candidate.name === chosen);
    return device ? deviceBudget(device, whole("share", 1) * 10, model, tp, gib("reserved")) : null;
  };
  const choiceNow = () => {
    const model = data.models.find((candidate) => candidate.model === part("model").value);
    const tp = whole("tp", 1);
    return {
      model: model.model, tokens: whole("tokens", 1), requests: whole("requests", 1),
      kvDtype: part("dtype").value, blockSize: whole("block", 1), tp,
      budget: budgetOf(model, tp),
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
  const answer = (choice, found) => {
    if (found.budget === undefined) return inBinary(found.paged) + " per request.";
    const fits = found.concurrency >= big(choice.requests);
    return grouped(found.concurrency) + " concurrent requests of " + grouped(choice.tokens) +
      " tokens fit: " + grouped(choice.requests) + (fits ? " fit." : " do not fit.");
  };
  const show = () => {
    const choice = choiceNow();
    const found = explore(choice);
    const slots = found.paged ? percent(found.tail, found.paged) : "–";
    part("answer").textContent = answer(choice, found);
    const body = part("figures");
    body.replaceChildren();
    row(body, ["Logical bytes of one request", exact(found.logical)]);
    row(body, ["Paged bytes of one request", exact(found.paged)]);
    row(body, ["Tail waste", exact(found.tail) + ", " + slots]);
    row(body, ["Bytes per block id", exact(found.perBlock)]);
    row(body, ["Paged bytes of " + grouped(choice.requests) + " requests", exact(found.total)]);
    if (found.budget !== undefined) {
      row(body, ["Budget for the cache, one rank", exact(found.budget)]);
      row(body, ["Blocks in the pool", grouped(found.poolBlocks)]);
      row(body, ["Concurrent requests", grouped(found.concurrency)]);
      row(body, ["Longest single request", grouped(found.capacity) + " tokens"]);
    }
    const groups = part("groups");
    groups.replaceChildren();
    found.groups.forEach((group, place) => row(groups, [
      group.kind, group.layers.toString(), exact(group.page), grouped(found.blocks[place]),
    ]));
    showLengths(choice);
  };
  const showLengths = (choice) => {
    const body = part("lengths");
    body.replaceChildren();
    for (let tokens = 1024; tokens <= 1048576; tokens *= 2) {
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
      show();
    });
  }
  show();
})();
