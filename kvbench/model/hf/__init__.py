"""Hugging Face configs: adapters by ``model_type`` and a strict generic one."""

from kvbench.model.hf.read import read_config_file, spec_from_config

__all__ = ["read_config_file", "spec_from_config"]
