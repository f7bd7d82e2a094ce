"""Where the vendor's Triton would be: nothing compiles for an emulated device."""

raise ImportError("there is no Triton for an emulated musa")
