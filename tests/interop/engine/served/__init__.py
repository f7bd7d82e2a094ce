"""A package of models for sglang (`SGLANG_EXTERNAL_MODEL_PACKAGE`): with it, the others wait."""
