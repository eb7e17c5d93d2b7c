#!/usr/bin/env bash
# Check and measure the decode kernels on the GPU that is here; nothing is downloaded.
#
#   benchmarks/gpu.sh [--tiny] [FOLDER]
#
# Needs torch and triton 3.6 or newer; kvbench's own dependencies must be installed. Every cell is
# checked against float64 before it is timed. Leaves one run folder per suite (Parquet, report) and
# a table of them under FOLDER (default reports/runs/gpu-TIME). --tiny rehearses the same steps
# through Triton's interpreter on a machine without a GPU: no time or bandwidth is reported.
set -euo pipefail
cd "$(dirname "$0")/.."

tiny=""
if [[ "${1:-}" == "--tiny" ]]; then tiny=yes; shift; fi
folder="${1:-reports/runs/gpu-$(date +%Y%m%dT%H%M%S)}"
python="${PYTHON:-python3}"
export PYTHONPATH="$PWD:$PWD/plugins${PYTHONPATH:+:$PYTHONPATH}"

if [[ -n "$tiny" ]]; then
  suites=(benchmarks/gpu_tiny.toml)
else
  suites=(suites/kernel_kv_dtype.toml suites/kernel_block_size.toml suites/kernel_gqa_vs_mha.toml)
fi

mkdir -p "$folder"
failed=0
for suite in "${suites[@]}"; do
  name="$(basename "$suite" .toml)"
  "$python" -m kvbench run "$suite" -o "$folder/$name" || failed=$?
done
"$python" benchmarks/gpu_table.py "$folder" | tee "$folder/table.md"
exit "$failed"
