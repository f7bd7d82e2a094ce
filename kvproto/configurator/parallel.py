"""How a model is spread over devices, and which layers and heads one of them has."""

from __future__ import annotations

from dataclasses import dataclass

from .option_values import check_count
from .plan_error import PlanError

__all__ = ["ParallelLayout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelLayout:
    """Ranks: `tp_size` devices share each layer, `pp_size` stages share the layers.

    `dp_attention_size` of the tensor-parallel groups attend to requests of their own, so that a
    layer's heads are split over `tp_size / dp_attention_size`. `dcp_size` of those split a
    request's tokens instead of its heads. `pp_layers` gives the layers of each stage where
    they are not spread evenly.

    :raises PlanError: for sizes that do not divide each other.
    """

    tp_size: int = 1
    pp_size: int = 1
    dp_attention_size: int = 1
    dcp_size: int = 1
    pp_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tp_size", "pp_size", "dp_attention_size", "dcp_size"):
            check_count(name, getattr(self, name), why="ranks are counted from 1")
        self._check_layers()
        if self.tp_size % self.dp_attention_size:
            raise PlanError(
                "dp_attention_size",
                self.dp_attention_size,
                f"{self.tp_size} tensor-parallel ranks cannot be split into that many groups",
                "give a divisor of tp_size",
            )
        if self.attention_ranks % self.dcp_size:
            raise PlanError(
                "dcp_size",
                self.dcp_size,
                f"{self.attention_ranks} ranks share a layer's attention",
                "give a divisor of tp_size / dp_attention_size",
            )

    def _check_layers(self) -> None:
        change = "give one count of layers for each stage"
        if self.pp_layers and len(self.pp_layers) != self.pp_size:
            raise PlanError("pp_layers", self.pp_layers, f"there are {self.pp_size} stages", change)
        for count in self.pp_layers:
            if type(count) is not int or count < 1:
                why = "each stage has at least one layer"
                raise PlanError("pp_layers", self.pp_layers, why, change)

    @property
    def attention_ranks(self) -> int:
        """Ranks among which a layer's attention is split."""
        return self.tp_size // self.dp_attention_size

    @property
    def head_ranks(self) -> int:
        """Ranks among which a layer's heads are split."""
        return self.attention_ranks // self.dcp_size

    def requests_of_group(self, running: int | None) -> int | None:
        """Of so many requests at once, those of one attention group; at least one."""
        return None if running is None else max(1, running // self.dp_attention_size)

    def stage(self, rank: int, layer_num: int, rows_per_layer: int = 1) -> range:
        """Global layer ids of a pipeline stage; the last stages have the odd layers.

        Stages are cut between layers of the model, which have `rows_per_layer` ids each.

        :raises PlanError: for a rank that is none, more stages than layers, or stated counts that
            are not all layers.
        """
        layer_num //= rows_per_layer
        if self.pp_size > layer_num:
            raise PlanError(
                "pp_size",
                self.pp_size,
                f"the model has {layer_num} layers, and each stage needs one",
                f"give at most {layer_num}",
            )
        if not 0 <= rank < self.pp_size:
            raise PlanError("pp_rank", rank, f"there are {self.pp_size} stages", "count from 0")
        counts = self.pp_layers or self._even(layer_num)
        if sum(counts) != layer_num:
            raise PlanError(
                "pp_layers", counts, f"the model has {layer_num} layers", "make them add up"
            )
        start = sum(counts[:rank])
        return range(start * rows_per_layer, (start + counts[rank]) * rows_per_layer)

    def _even(self, layer_num: int) -> tuple[int, ...]:
        base, odd = divmod(layer_num, self.pp_size)
        return (base,) * (self.pp_size - odd) + (base + 1,) * odd
