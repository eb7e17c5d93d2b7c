// The explorer's arithmetic, in exact integers (BigInt), for one request on one rank. The plain
// paged layout is recomputed for any context, dtype, block size and number of ranks; the layout of
// an engine for any context and the choices whose plans the run embedded.
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

  const pagedPlan = (model, dtype, blockSize, tp) => {
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
    const plan = { groups, blockSize: big(blockSize), perBlock };
    return { ...plan, ...pagedRules(plan) };
  };
  const groupBlocks = (group, blockSize, tokens) => {
    if (group.isFixed) return 1n;
    const blocks = ceilDiv(tokens, blockSize);
    if (group.visible === null) return blocks;
    return least(blocks, (group.visible + blockSize - 2n) / blockSize + 1n);
  };
  const logicalBytes = (costs, tokens) => costs.reduce((sum, cost) => {
    const seen = cost.visible === null ? tokens : least(tokens, cost.visible);
    return sum + cost.layers * (cost.fixed + cost.entry * (seen / cost.compress));
  }, 0n);
  const largest = (low, high, fits) => {
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      if (fits(middle)) low = middle; else high = middle;
    }
    return low;
  };
  // A plain pool is measured in bytes: what the resident blocks of a request take.
  const pagedRules = (plan) => {
    const blocks = (tokens) => plan.groups.map((g) => groupBlocks(g, plan.blockSize, tokens));
    const paged = (tokens) => blocks(tokens).reduce((sum, count, place) =>
      sum + count * plan.groups[place].layers * plan.groups[place].page, 0n);
    const grows = plan.groups.some((group) => !group.isFixed && group.visible === null);
    return {
      blocks, paged, admission: paged, logical: (tokens) => logicalBytes(plan.groups, tokens),
      concurrency: (poolBlocks, tokens) =>
        paged(tokens) ? poolBlocks * plan.perBlock / paged(tokens) : 0n,
      capacity: (poolBlocks) => {
        const pool = poolBlocks * plan.perBlock;
        const fits = (count) => paged(count * plan.blockSize) <= pool;
        return grows ? largest(0n, pool + 1n, fits) * plan.blockSize : 0n;
      },
    };
  };

  // An engine's pool is measured in block ids that all groups share; it plans by admission.
  const enginePlan = (layout, dtype, blockSize, tp) => {
    const stored = layout.plans[dtype + "|" + tp + "|" + (blockSize === null ? "" : blockSize)];
    if (stored === undefined) return { refusal: "this run has not arranged the model so" };
    if (typeof stored === "string") return { refusal: stored };
    const groups = stored.groups.flatMap(([times, ...fields]) =>
      Array(times).fill(engineGroup(fields)));
    const perBlock = big(stored.bytes);
    const costs = stored.costs.map(([layers, entry, compress, visible, fixed]) => ({
      layers: big(layers), entry: big(entry), compress: big(compress),
      visible: visible === null ? null : big(visible), fixed: big(fixed) }));
    const sum = (counts) => counts.reduce((total, count) => total + count, 0n);
    const blocks = (tokens) => groups.map((group) => group.resident(tokens));
    const charged = (tokens) => sum(groups.map((group) => group.charged(tokens)));
    return {
      groups, blockSize: big(stored.block), perBlock, blocks,
      logical: (tokens) => logicalBytes(costs, tokens),
      paged: (tokens) => sum(blocks(tokens)) * perBlock,
      admission: (tokens) => charged(tokens) * perBlock,
      concurrency: (poolBlocks, tokens) => charged(tokens) ? poolBlocks / charged(tokens) : 0n,
      // The engine multiplies a fraction, in double precision as Python does.
      capacity: (poolBlocks) => {
        const needed = Number(charged(big(layout.max_model_len)));
        const share = needed ? Number(poolBlocks) / needed : 0;
        return big(Math.trunc(share * layout.max_model_len));
      },
    };
  };
  const engineGroup = ([kind, layers, size, page, most, held, fixed, cap, extra]) => {
    const blockSize = big(size);
    return {
      kind, layers: big(layers), page: big(page),
      resident: (tokens) => {
        if (held !== null) return big(held);
        const blocks = ceilDiv(tokens, blockSize);
        return most === null ? blocks : least(blocks, big(most));
      },
      charged: (tokens) => {
        if (fixed !== null) return big(fixed);
        const counted = cap === null ? tokens : least(tokens, big(cap));
        return ceilDiv(counted, blockSize) + big(extra);
      },
    };
  };

  // All figures of one choice; big integers, so that nothing is rounded on the way.
  const explore = (choice) => {
    const model = data.models.find((candidate) => candidate.model === choice.model);
    const layout = choice.layout && data.layouts.find((candidate) =>
      candidate.model === choice.model && candidate.name === choice.layout);
    const plan = layout
      ? enginePlan(layout, choice.kvDtype, choice.blockSize, choice.tp)
      : pagedPlan(model, choice.kvDtype, choice.blockSize, choice.tp);
    if (plan.refusal) return plan;
    const tokens = big(choice.tokens);
    const logical = plan.logical(tokens);
    const paged = plan.paged(tokens);
    const found = {
      logical, paged, blocks: plan.blocks(tokens), tail: paged - logical, groups: plan.groups,
      admission: plan.admission(tokens), perBlock: plan.perBlock, blockSize: plan.blockSize,
      total: paged * big(choice.requests),
    };
    if (choice.budget === null) return found;
    const budget = choice.budget > 0n ? choice.budget : 0n;
    const poolBlocks = plan.perBlock ? budget / plan.perBlock : 0n;
    return {
      ...found, budget, poolBlocks, pool: poolBlocks * plan.perBlock,
      concurrency: plan.concurrency(poolBlocks, tokens), capacity: plan.capacity(poolBlocks),
    };
  };

  // Memory of a device for the cache of one rank: its share, less weights and what is stated.
  const deviceBudget = (device, permille, model, tp, reserved) =>
    big(device.memory_bytes) * big(permille) / 1000n -
    ceilDiv(big(model.weight_bytes || 0), big(tp)) - reserved;
  window.kvbenchExplorer = { data, explore, deviceBudget };
})();
